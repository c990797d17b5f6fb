import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { parseAddress } from "../../src/registries/index.ts";
import type { KubernetesParts } from "../../src/registries/kubernetes/settings.ts";
import { kubernetesRegistry } from "../../src/registries/kubernetes/registry.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type Certificates, makeCertificates } from "./certificates.ts";
import { Etcd, etcdMissing } from "./etcd.ts";
import { clocksMissing, WallClock } from "./holder.ts";
import { freePort, ServerProcess } from "./servers.ts";

const programMissing = ["go", "kubectl"].find((name) => spawnSync(name, ["version", "--client"]).error !== undefined);

/** Why there is no API server to start; undefined if there is one. */
export const kubernetesMissing: string | undefined =
  etcdMissing ??
  process.env["KUBERNETES_API_MISSING"] ??
  (programMissing === undefined
    ? undefined
    : `${programMissing} is not installed: the API server of Kubernetes is built with Go`);

/** The program of the API server. `npm run test:all` builds it before the tests begin. */
function program(): string {
  const script = join(import.meta.dirname, "../../scripts/kubernetes-api.mjs");
  return execFileSync(process.execPath, [script], { encoding: "utf8" }).trim();
}

/** A user of the API server, and what its token allows with the Lease objects of one namespace. */
interface Account {
  readonly token: string;
  readonly name: string;
  readonly namespace: string;
  readonly verbs: readonly string[];
}

interface KubernetesObject {
  readonly metadata: {
    readonly name: string;
    resourceVersion: string;
    readonly annotations: Record<string, string>;
    finalizers?: readonly string[];
  };
}

/** The verbs that the Role of `deploy/kubernetes/leases.yaml` allows. */
const verbs = ["get", "list", "create", "patch", "delete"];
/** A person, who puts objects back by hand. */
const operator = { token: "operator-token", name: "operator", verbs: ["get", "update"] };

/** An API server of the test's own, on an etcd of its own. */
export class Kubernetes {
  readonly etcd: Etcd;
  /** The namespace of Kubernetes. */
  readonly place = "tests";
  readonly process: ServerProcess = new ServerProcess("kubernetes");
  readonly port: number;
  readonly certificates: Certificates;
  readonly #options: readonly string[];
  #accounts: readonly Account[];

  private constructor(etcd: Etcd, port: number, options: readonly string[]) {
    this.etcd = etcd;
    this.port = port;
    this.#options = options;
    const { folder } = this.process;
    // The certificates are two hours old, like those of a cluster, so that holders whose clocks are behind accept them.
    const earlier = clocksMissing === undefined ? new WallClock(-7200, folder).environment : {};
    this.certificates = makeCertificates(folder, earlier);
    const { place: namespace } = this;
    this.#accounts = [{ token: "first-token", name: "snowlease", namespace, verbs }];
    this.allow(this.#accounts);
  }

  /** `options`: for the server, such as `--max-requests-inflight=2`. */
  static async start(options: readonly string[] = []): Promise<Kubernetes> {
    const etcd = await Etcd.start();
    const server = new Kubernetes(etcd, await freePort(), options);
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.remove();
      throw error;
    }
  }

  get token(): string {
    return this.#accounts[0]?.token ?? "";
  }

  /** Replaces the users. The files for logins then have the token of the first one. */
  allow(accounts: readonly Account[]): void {
    this.#accounts = accounts;
    const { folder } = this.process;
    writeFileSync(join(folder, "users.json"), JSON.stringify([...accounts, { ...operator, namespace: this.place }]));
    const pod = join(folder, "pod");
    mkdirSync(pod, { recursive: true });
    writeFileSync(join(pod, "token"), this.token);
    writeFileSync(join(pod, "ca.crt"), readFileSync(this.certificates.authority));
    writeFileSync(join(pod, "namespace"), this.place);
  }

  /** Sets the token of the first user from now on. The old token is refused. */
  rotate(token: string): void {
    this.allow(this.#accounts.map((account, i) => (i === 0 ? { ...account, token } : account)));
  }

  /** A kubeconfig of the first user, or of another `user`, with the server's own port or that of a proxy. */
  kubeconfig(port: number = this.port, user: object = { tokenFile: join(this.process.folder, "pod/token") }): string {
    const cluster = { server: `https://127.0.0.1:${port}`, "certificate-authority": this.certificates.authority };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "tests",
      clusters: [{ name: "tests", cluster }],
      users: [{ name: "tests", user }],
      contexts: [{ name: "tests", context: { cluster: "tests", user: "tests", namespace: this.place } }],
    };
    const text = JSON.stringify(config);
    const name = createHash("sha256").update(text).digest("hex").slice(0, 8);
    const file = join(this.process.folder, `kubeconfig-${name}`);
    writeFileSync(file, text);
    return file;
  }

  /** The environment of a pod, and the URL for it. */
  get pod(): { readonly url: string; readonly environment: Readonly<Record<string, string>> } {
    return {
      url: `kubernetes:?serviceAccount=${encodeURIComponent(join(this.process.folder, "pod"))}`,
      environment: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(this.port) },
    };
  }

  /** The URL, also with the port of a proxy, or for another user. */
  url(port?: number, user?: object): string {
    return `kubernetes:?kubeconfig=${encodeURIComponent(this.kubeconfig(port, user))}`;
  }

  async start(): Promise<void> {
    const { certificate, key } = this.certificates;
    const options = [
      `--etcd-servers=${this.etcd.first.client}`,
      "--bind-address=127.0.0.1",
      `--secure-port=${this.port}`,
      `--tls-cert-file=${certificate}`,
      `--tls-private-key-file=${key}`,
      `--users=${join(this.process.folder, "users.json")}`,
      ...this.#options,
    ];
    await this.process.start(program(), options, async () => (await this.#status("?limit=1")) === 200);
  }

  /** Adds another user. */
  add(token: string, name: string, verbs: readonly string[]): void {
    this.allow([...this.#accounts, { token, name, namespace: this.place, verbs }]);
  }

  /** Runs `kubectl` as the first user, and returns its output. */
  kubectl(...args: readonly string[]): string {
    return this.#kubectlWith(this.kubeconfig(), args);
  }

  #kubectlWith(kubeconfig: string, args: readonly string[]): string {
    return execFileSync("kubectl", [`--kubeconfig=${kubeconfig}`, ...args], { encoding: "utf8" });
  }

  object(name: string): KubernetesObject {
    return JSON.parse(this.kubectl("get", "lease", name, "--output=json")) as KubernetesObject;
  }

  /** Puts an object in place of the one with its name, as a person does it. */
  putBack(object: KubernetesObject): void {
    object.metadata.resourceVersion = this.object(object.metadata.name).metadata.resourceVersion;
    const file = join(this.process.folder, "copy.json");
    writeFileSync(file, JSON.stringify(object));
    // The server publishes no schema against which to check the object.
    const asOperator = this.kubeconfig(this.port, { token: operator.token });
    this.#kubectlWith(asOperator, ["replace", "--validate=false", `--filename=${file}`]);
  }

  async remove(): Promise<void> {
    await this.process.remove();
    await this.etcd.remove();
  }

  #status(rest: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const ask = request({
        host: "127.0.0.1",
        port: this.port,
        path: `/apis/coordination.k8s.io/v1/namespaces/${this.place}/leases${rest}`,
        headers: { authorization: `Bearer ${this.token}` },
        ca: readFileSync(this.certificates.authority),
        agent: false,
        timeout: 2000,
      });
      ask.once("timeout", () => ask.destroy(new Error("silent")));
      ask.once("error", reject);
      ask.once("response", (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      ask.end();
    });
  }
}

/** A registry at a Kubernetes URL. */
export function openKubernetes(url: string, operationTimeout = 5000): Promise<Registry> {
  return kubernetesRegistry(parseAddress(url) as KubernetesParts & { readonly kind: string }, { operationTimeout });
}
