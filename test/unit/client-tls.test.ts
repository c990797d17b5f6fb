import { expect, test } from "vitest";
import { tlsError } from "../../src/registries/client-tls.ts";

const coded = (code: string, message: string, more: object = {}): Error =>
  Object.assign(new Error(message), { code, ...more });

test.each([
  [coded("DEPTH_ZERO_SELF_SIGNED_CERT", "self-signed certificate"), "does not trust (self-signed certificate)"],
  [coded("SELF_SIGNED_CERT_IN_CHAIN", "self-signed certificate in certificate chain"), "does not trust"],
  [coded("UNABLE_TO_VERIFY_LEAF_SIGNATURE", "unable to verify the first certificate"), "does not trust"],
  [coded("UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "unable to get local issuer certificate"), "does not trust"],
  // A driver puts a code of its own there.
  [coded("HANDSHAKE_SSL_ERROR", "self-signed certificate"), "does not trust"],
  [
    new Error("All sentinels are unreachable and retry is disabled. Last error: self-signed certificate"),
    "does not trust",
  ],
  [
    coded("", "Failed to refresh slots cache.", { lastNodeError: new Error("unable to verify the first certificate") }),
    "does not trust (unable to verify the first certificate)",
  ],
  [coded("CERT_HAS_EXPIRED", "certificate has expired"), "of another time (certificate has expired)"],
  [coded("CERT_NOT_YET_VALID", "certificate is not yet valid"), "of another time"],
  [
    coded("ERR_TLS_CERT_ALTNAME_INVALID", "Hostname/IP does not match certificate's altnames: IP: 10.0.0.1 is not …"),
    "of another name",
  ],
  [
    coded("ERR_SSL_WRONG_VERSION_NUMBER", "40B7:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:…", {
      reason: "wrong version number",
    }),
    "speaks no TLS (wrong version number)",
  ],
  [
    coded(
      "EPROTO",
      "write EPROTO 80BC:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:../deps/a.c:3: ",
    ),
    "speaks no TLS (wrong version number)",
  ],
  [new Error("The server does not support SSL connections"), "speaks no TLS"],
  [coded("HANDSHAKE_NO_SSL_SUPPORT", "Server does not support secure connection"), "speaks no TLS"],
  [
    coded("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "40:error:0A00045C:SSL routines::…", {
      reason: "tlsv13 alert certificate required",
    }),
    "wants one (tlsv13 alert certificate required)",
  ],
  [coded("EPROTO", "…", { reason: "sslv3 alert handshake failure" }), "cannot agree"],
])("%s lasts, and says what to do", (cause, what) => {
  const error = tlsError("The server db:1", cause);
  expect(error).toMatchObject({ code: "REGISTRY_UNAVAILABLE", details: { lasting: true } });
  expect(error?.message).toMatch(/^The server db:1 .+, nothing was changed; .+\.$/);
  expect(error?.message).toContain(what);
});

test.each([
  coded("ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:1"),
  coded("ECONNRESET", "Client network socket disconnected before secure TLS connection was established"),
  new Error(""),
  undefined,
  "self-signed certificate",
])("%s does not last", (cause) => {
  expect(tlsError("The server", cause)).toBeUndefined();
});
