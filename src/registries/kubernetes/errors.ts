import { type ErrorCode, shown, SnowleaseError } from "../../id/errors.ts";

/** A refusal from the API server: a `Status` of Kubernetes. */
export class ApiRefusal extends Error {
  /** The status code of HTTP. */
  readonly status: number;
  /** The reason of Kubernetes, such as `AlreadyExists`. */
  readonly reason: string;
  /** More detailed reasons, such as `NamespaceTerminating`. */
  readonly causes: readonly string[];

  constructor(status: number, reason: string, message: string, causes: readonly string[]) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.causes = causes;
  }

  /** The API server, or its etcd, could not complete the call, or does not know whether it did. */
  get isUnsure(): boolean {
    return this.status >= 500;
  }

  /** A value is not as a patch expects it, and nothing was done. The server reports no more than this. */
  get isFailedTest(): boolean {
    return (
      this.status === 422 && this.message.startsWith("the server rejected our request due to an error in our request")
    );
  }

  /** Too many requests at the moment. Nothing was done. */
  get isThrottled(): boolean {
    return this.status === 429;
  }
}

const rights =
  "its user needs the verbs get, list, create, patch and delete on leases.coordination.k8s.io in that namespace: deploy/kubernetes has the Role";

function meaningOf({ status, causes, message, isThrottled }: ApiRefusal): readonly [ErrorCode, string] {
  if (isThrottled)
    return ["REGISTRY_UNAVAILABLE", "give its user a FlowSchema of its own, or set a longer operationTimeout"];
  if (status === 401) return ["UNAUTHORIZED", "look whether the token or certificate of this user is still valid"];
  if (causes.includes("NamespaceTerminating")) {
    return ["FORBIDDEN", "this namespace of Kubernetes is being deleted: use another one"];
  }
  if (/exceeded quota/.test(message)) return ["FORBIDDEN", "raise the ResourceQuota of that namespace of Kubernetes"];
  if (status === 403) return ["FORBIDDEN", rights];
  if (status === 404) return ["CONFIG_INVALID", "create that namespace of Kubernetes, or correct the registry URL"];
  if (status === 400 || status === 422) {
    return ["CONFIG_INVALID", "look whether a policy of the cluster changes or refuses Lease objects"];
  }
  return ["REGISTRY_UNAVAILABLE", "look whether the API server and its etcd run"];
}

/** The error for a refusal of the API server. The server wrote nothing. */
export function refusalError(cause: ApiRefusal, where: string): SnowleaseError {
  const [code, advice] = meaningOf(cause);
  return new SnowleaseError(
    code,
    `Kubernetes ${where} refused: ${shortened(cause.message)}; ${advice}.`,
    {},
    { cause },
  );
}

/** The error if the API server did not answer in time. `sent`: the operation may have been done. */
export function silentError(where: string, timeout: number, sent: boolean, cause?: unknown): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${shortened(cause.message)})` : "";
  const done = sent ? "whether it did what was asked is not known" : "nothing was changed";
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `Kubernetes ${where} did not answer within ${timeout} ms${said}; ${done}; look whether the API server and its etcd run, and whether this host may reach it.`,
    {},
    { cause },
  );
}

/** The error if no configuration says where the API server is, or how to log in. */
export function noAccess(what: string, cause?: unknown): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${shortened(cause.message)})` : "";
  return new SnowleaseError(
    "CONFIG_INVALID",
    `${what}${said}; run it in a pod with a service account, or name a kubeconfig: kubernetes:?kubeconfig=FILE.`,
    {},
    { cause },
  );
}

/** The error if no login could be made after the server refused the last one, or after it expired. */
export function noLogin(cause: unknown): SnowleaseError {
  const said = cause instanceof Error && cause.message !== "" ? ` (${shortened(cause.message)})` : "";
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The login of Kubernetes could not be renewed${said}, nothing was changed; look whether the files and the program that make it are there.`,
    {},
    { cause },
  );
}

/** The error for a server that is not an API server, or has no Lease objects. */
export function nonsense(where: string, answer: unknown): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `${where} answers ${shown(answer)}, as no API server of Kubernetes does: check what runs at this address.`,
  );
}

/** The error for a Lease object with a value that this registry did not write. */
export function foreignObject(name: string, what: string): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The Lease object \`${name}\` holds ${what}, which Snowlease never wrote: put it right, or use another namespace.`,
  );
}

/** The error for an object that another version of Snowlease wrote. */
export function otherSchema(name: string, stored: number, known: number): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The Lease object \`${name}\` is of version ${stored}, and this Snowlease knows version ${known}; run the version that wrote it, or use another namespace.`,
    { stored, known },
  );
}

/** The error if a finalizer keeps the object of a namespace that has to be removed. */
export function heldFacts(name: string): SnowleaseError {
  return new SnowleaseError(
    "FORBIDDEN",
    `The Lease object \`${name}\` has to go, and a finalizer keeps it there; take that away (metadata.finalizers); if the namespace is gone then, make it again with \`snowlease init\`; then remove it.`,
  );
}

/** The error if a finalizer keeps an object that has to be removed. */
export function heldObject(name: string): SnowleaseError {
  return new SnowleaseError(
    "FORBIDDEN",
    `The Lease object \`${name}\` is deleted, and a finalizer keeps it there; take that away (metadata.finalizers), and try again.`,
  );
}

/** A message of a server as one line of limited length. */
function shortened(message: string): string {
  const line = message.replaceAll(/\s+/g, " ").replace(/[.;]\s*$/, "");
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}
