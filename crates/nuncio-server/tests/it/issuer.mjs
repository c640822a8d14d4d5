// A real OpenID provider on a free port of this machine, for the tests of access tokens.
//
// NUNCIO_TEST_OIDC_PROVIDER names lib/index.js of the npm package `oidc-provider`. The first line on
// standard output is the issuer. Below /test the tests tell it what to do:
//   POST /test/rotate   its keys are replaced by new ones
//   POST /test/down     it answers 503 until POST /test/up
//   POST /test/hold     it lets everyone wait until POST /test/go
//   POST /test/forge    a token with the header, the claims and the kind of key in the body
//   GET  /test/asked    how often each of its addresses was asked for

import * as crypto from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const { default: Provider } = await import(pathToFileURL(process.env.NUNCIO_TEST_OIDC_PROVIDER).href);

let generation = 0;
let keys = [];
let provider;
let down = false;
let gate = Promise.resolve();
let open = () => {};
const asked = {};

function newKey(alg, type, options, also = {}) {
  const { privateKey } = crypto.generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: "jwk" }), kid: `${alg}-${generation}`, alg, use: "sig", ...also };
}

function rotate(issuer) {
  generation += 1;
  keys = [
    newKey("RS256", "rsa", { modulusLength: 2048 }),
    newKey("PS256", "rsa", { modulusLength: 2048 }),
    newKey("ES256", "ec", { namedCurve: "P-256" }),
    newKey("ES384", "ec", { namedCurve: "P-384" }),
    newKey("EdDSA", "ed25519", {}),
  ];
  const algorithms = keys.map((key) => key.alg);
  provider = new Provider(issuer, {
    clients: [
      { client_id: "booker", client_secret: "booker-secret", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] },
      { client_id: "nuncio", client_secret: "asks +/= much", grant_types: [], redirect_uris: [], response_types: [] },
    ],
    jwks: { keys },
    enabledJWA: { idTokenSigningAlgValues: algorithms },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        // The audience is the address asked for; its last word says what kind of token is given.
        getResourceServerInfo: (_context, resource) => {
          const kind = resource.split("/").pop();
          const format = kind === "opaque" ? {} : { jwt: { sign: { alg: kind } } };
          return {
            scope: "notes:read notes:write book:reservation",
            audience: resource,
            accessTokenTTL: 300,
            accessTokenFormat: kind === "opaque" ? "opaque" : "jwt",
            ...format,
          };
        },
      },
    },
  });
  provider.on("server_error", (_context, error) => console.error(error));
}

const coded = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

function sign({ key, alg }, message) {
  if (key === "none") return "";
  if (key === "public") {
    // The attack on those who take a public key for a shared secret.
    const rsa = crypto.createPublicKey({ key: keys[0], format: "jwk" }).export({ type: "spki", format: "pem" });
    return crypto.createHmac("sha256", rsa).update(message).digest("base64url");
  }
  const own = keys.find((candidate) => candidate.alg === alg) ?? keys[0];
  let signer = crypto.createPrivateKey({ key: own, format: "jwk" });
  if (key === "foreign") {
    signer = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  }
  if (own.kty === "OKP") return crypto.sign(null, message, signer).toString("base64url");
  if (own.kty === "EC") {
    return crypto.sign("sha256", message, { key: signer, dsaEncoding: "ieee-p1363" }).toString("base64url");
  }
  const padding = alg === "PS256" ? { padding: crypto.constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 } : {};
  return crypto.sign("sha256", message, { key: signer, ...padding }).toString("base64url");
}

function forge({ header, claims, key }) {
  const alg = header.alg ?? "RS256";
  const own = keys.find((candidate) => candidate.alg === alg) ?? keys[0];
  const head = { alg, kid: own.kid, typ: "at+jwt", ...header };
  for (const name of Object.keys(head)) if (head[name] === null) delete head[name];
  const message = `${coded(head)}.${coded(claims)}`;
  return `${message}.${sign({ key, alg }, Buffer.from(message))}`;
}

async function body(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

const server = createServer(async (request, response) => {
  const path = request.url.split("?")[0];
  switch (path) {
    case "/test/rotate":
      rotate(issuer);
      return response.end();
    case "/test/down":
    case "/test/up":
      down = path === "/test/down";
      return response.end();
    case "/test/hold":
      gate = new Promise((go) => (open = go));
      return response.end();
    case "/test/go":
      open();
      return response.end();
    case "/test/forge":
      return response.end(forge(JSON.parse(await body(request))));
    case "/test/asked":
      return response.end(JSON.stringify(asked));
  }
  asked[path] = (asked[path] ?? 0) + 1;
  await gate;
  if (down) {
    response.statusCode = 503;
    return response.end();
  }
  return provider.callback()(request, response);
});

await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;
rotate(issuer);
console.log(issuer);
// The test that started it holds the other end.
process.stdin.resume().on("end", () => process.exit(0));
