import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { type Clock, monotonic } from "../../clock.ts";
import type { ClientTls } from "../client-tls.ts";
import { isLoopback } from "../loopback.ts";
import type { Encryption } from "../store-kind.ts";
import { whereOf } from "../url.ts";
import type { KubernetesParts, KubernetesSettings } from "./settings.ts";
import { noAccess, noLogin } from "./errors.ts";

/*
 * How to find the API server, and how to log in. A pod has files for this. Outside a pod, kubectl reads the kubeconfig, with everything
 * that one may contain. So no package that reads a kubeconfig has to be installed.
 */

/** The login that requests send. */
export interface Login extends ClientTls {
  readonly token?: string | undefined;
}

/** A cluster. */
export interface Cluster {
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
  /** The beginning of each path; mostly empty. */
  readonly base: string;
  /** The name in the server's certificate, if it is not `host`. */
  readonly servername?: string | undefined;
  /** False only if a kubeconfig says so. */
  readonly isVerified: boolean;
  /** The namespace of Kubernetes with the Lease objects. */
  readonly place: string;
  /** The present login. `refused`: a login that the server refused. In this case another login is made. */
  login(refused?: Login): Promise<Login>;
}

/** How long a pod's token is used before its file is read again, ms. The kubelet replaces the token long before it expires. */
const tokenKept = 60_000;
/** A login from a program is no longer used this long before it expires, ms. */
const earlier = 30_000;
const run = promisify(execFile);

/** @throws SnowleaseError CONFIG_INVALID */
export async function findCluster(
  parts: KubernetesParts,
  settings: KubernetesSettings,
  options: { readonly operationTimeout: number; readonly clock: Clock },
): Promise<Cluster> {
  const pod = podServer(settings);
  return pod === undefined
    ? clusterOfKubeconfig(parts, settings, options)
    : clusterOfPod(parts, settings, pod, options.clock);
}

/** The API server by the environment of a pod; undefined outside a pod, or if a setting names a kubeconfig. */
function podServer({ kubeconfig, context }: KubernetesSettings): Pick<Cluster, "host" | "port"> | undefined {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = process.env;
  if (host === undefined || host === "" || kubeconfig !== undefined || context !== undefined) return undefined;
  return { host, port: Number(port) };
}

/** Whether a network can read what is sent to the API server. This does not log in. @throws SnowleaseError CONFIG_INVALID */
export async function encryptionOfCluster(settings: KubernetesSettings, operationTimeout: number): Promise<Encryption> {
  if (podServer(settings) !== undefined) return { is: "encrypted" };
  const { host, port, isSecure, isVerified } = serverOf((await readKubeconfig(settings, operationTimeout)).server);
  if (isLoopback(host)) return { is: "local" };
  if (!isSecure) return { is: "plain", addresses: [whereOf([{ host, port }])], remedy: "`https:` in the kubeconfig" };
  return isVerified
    ? { is: "encrypted" }
    : { is: "unchecked", setting: "`insecure-skip-tls-verify` in the kubeconfig" };
}

async function clusterOfPod(
  { place }: KubernetesParts,
  { serviceAccount }: KubernetesSettings,
  server: Pick<Cluster, "host" | "port">,
  clock: Clock,
): Promise<Cluster> {
  const read = async (name: string): Promise<string> => {
    const file = join(serviceAccount, name);
    try {
      return (await readFile(file, "utf8")).trim();
    } catch (cause) {
      throw noAccess(`This pod has no ${file} of its service account`, cause);
    }
  };
  const login = keptLogin(clock, async () => {
    const [token, ca] = await Promise.all([read("token"), read("ca.crt")]);
    return { login: { token, ca }, kept: tokenKept };
  });
  await login();
  const found = { place: place ?? (await read("namespace")), login };
  return { ...server, ...found, isSecure: true, base: "", isVerified: true };
}

const execPlugin = z.object({
  apiVersion: z.string(),
  command: z.string(),
  args: z.array(z.string()).nullish(),
  env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
});
const base64 = z.base64().transform((text) => Buffer.from(text, "base64").toString());
/** The output of `kubectl config view --raw --minify --flatten -o json`: one context, with the content of the files that it names. */
const kubeconfigShape = z.object({
  clusters: z.tuple([
    z.object({
      cluster: z.object({
        server: z.url(),
        "certificate-authority-data": base64.optional(),
        "insecure-skip-tls-verify": z.boolean().optional(),
        "tls-server-name": z.string().optional(),
      }),
    }),
  ]),
  contexts: z.tuple([z.object({ context: z.object({ namespace: z.string().optional() }) })]),
  users: z
    .array(
      z.object({
        user: z.object({
          token: z.string().optional(),
          tokenFile: z.string().optional(),
          "client-certificate-data": base64.optional(),
          "client-key-data": base64.optional(),
          exec: execPlugin.nullish(),
        }),
      }),
    )
    .nullish(),
});
const credential = z.object({
  status: z.object({
    token: z.string().optional(),
    clientCertificateData: z.string().optional(),
    clientKeyData: z.string().optional(),
    expirationTimestamp: z.string().optional(),
  }),
});

type Kubeconfig = z.infer<typeof kubeconfigShape>;
type KubeconfigServer = Kubeconfig["clusters"][0]["cluster"];

async function readKubeconfig({ kubeconfig, context }: KubernetesSettings, operationTimeout: number) {
  const args = ["config", "view", "--raw", "--minify", "--flatten", "--output=json"];
  if (kubeconfig !== undefined) args.push(`--kubeconfig=${kubeconfig}`);
  if (context !== undefined) args.push(`--context=${context}`);
  try {
    const { stdout } = await run("kubectl", args, { timeout: Math.max(operationTimeout, 10_000) });
    const { clusters, contexts, users } = kubeconfigShape.parse(JSON.parse(stdout));
    return { server: clusters[0].cluster, chosen: contexts[0].context, user: users?.[0]?.user };
  } catch (cause) {
    throw noAccess("`kubectl config view` tells of no API server", withoutOutput(cause));
  }
}

function serverOf(server: KubeconfigServer): Omit<Cluster, "place" | "login"> {
  const { protocol, hostname, port, pathname } = new URL(server.server);
  const isSecure = protocol === "https:";
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (isSecure ? 443 : 80) : Number(port),
    isSecure,
    base: pathname.replace(/\/$/, ""),
    servername: server["tls-server-name"],
    isVerified: server["insecure-skip-tls-verify"] !== true,
  };
}

async function clusterOfKubeconfig(
  { place }: KubernetesParts,
  settings: KubernetesSettings,
  { operationTimeout, clock }: { readonly operationTimeout: number; readonly clock: Clock },
): Promise<Cluster> {
  const { server, chosen, user } = await readKubeconfig(settings, operationTimeout);
  const ca = server["certificate-authority-data"];
  const fixed: Login = {
    ca,
    cert: user?.["client-certificate-data"],
    key: user?.["client-key-data"],
    token: user?.token,
  };
  const { tokenFile, exec } = user ?? {};

  async function make(): Promise<MadeLogin> {
    if (exec !== undefined && exec !== null) {
      const { apiVersion, command, args: given, env } = exec;
      const asked = { apiVersion, kind: "ExecCredential", spec: { interactive: false } };
      const own = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]));
      const { stdout } = await run(command, given ?? [], {
        env: { ...process.env, ...own, KUBERNETES_EXEC_INFO: JSON.stringify(asked) },
        timeout: Math.max(operationTimeout, 10_000),
      });
      const { status } = credential.parse(JSON.parse(stdout));
      const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp: end } = status;
      const kept = end === undefined ? Infinity : Math.max(0, Date.parse(end) - clock.now() - earlier);
      return { login: { ca, token, cert, key }, kept };
    }
    if (tokenFile === undefined) return { login: fixed, kept: Infinity };
    return { login: { ...fixed, token: (await readFile(tokenFile, "utf8")).trim() }, kept: tokenKept };
  }

  const login = keptLogin(clock, () =>
    make().catch((cause: unknown) => {
      throw noAccess("The kubeconfig's way to log in failed", withoutOutput(cause));
    }),
  );
  await login();
  return {
    ...serverOf(server),
    place: place ?? chosen.namespace ?? "default",
    login,
  };
}

/** Why a program failed, without its standard output, which may contain a token. */
function withoutOutput(cause: unknown): unknown {
  if (cause instanceof SyntaxError) return new Error("it prints something that is not JSON");
  if (cause instanceof z.ZodError) return new Error(`it prints no usable \`${cause.issues[0]?.path.join(".")}\``);
  if (!(cause instanceof Error) || !("stderr" in cause)) return cause;
  const { code } = cause as Error & { readonly code?: unknown };
  return new Error(`${String(cause.stderr).trim()} (${typeof code === "number" ? `code ${code}` : "killed"})`);
}

interface MadeLogin {
  readonly login: Login;
  /** How long the login is used, ms. */
  readonly kept: number;
}

/** How soon another try follows if a login could not be made, ms. */
const again = 1000;

/** Makes a login once for all requests that need it. Makes another one when it is old or was refused. */
function keptLogin(clock: Clock, make: () => Promise<MadeLogin>): Cluster["login"] {
  let present: { readonly login: Login; readonly end: number } | undefined;
  let making: Promise<Login> | undefined;
  return async (refused) => {
    const known = present;
    const isUsable = known !== undefined && known.login !== refused;
    if (isUsable && monotonic(clock) < known.end) return known.login;
    making ??= make()
      .then(({ login, kept }) => {
        present = { login, end: monotonic(clock) + kept };
        return login;
      })
      .finally(() => (making = undefined));
    try {
      return await making;
    } catch (error) {
      // At first, the configuration is wrong. Later, another try may work.
      if (known === undefined) throw error;
      if (!isUsable) throw noLogin(error);
      // If this login has expired, the server reports it.
      present = { login: known.login, end: monotonic(clock) + again };
      return known.login;
    }
  };
}
