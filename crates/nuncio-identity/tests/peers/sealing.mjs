// The envelope a2h-envelope-v1 as docs/sealing.md describes it, on libolm, @hpke/core and Node's own cryptography. It
// shares nothing with the Rust implementation but that page.

import * as crypto from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";

// The folder with the npm packages.
const load = createRequire(join(process.env.NUNCIO_TEST_SEALING, "x.js"));
export const Olm = load("@matrix-org/olm");
export const canonicalize = load("canonicalize");
export const { argon2id } = load("@noble/hashes/argon2");
const { CipherSuite, Aes256Gcm, HkdfSha256 } = load("@hpke/core");
const { DhkemX25519HkdfSha256 } = load("@hpke/dhkem-x25519");

const HPKE = "hpke-x25519-hkdfsha256-aes256gcm";
const OLM = "olm-v1";
export const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm() });

export const b64 = (bytes) => Buffer.from(bytes).toString("base64url");
export const unb64 = (text) => {
  const bytes = Buffer.from(text, "base64url");
  if (b64(bytes) !== text) throw new Error("not base64url");
  return bytes;
};
// libolm writes plain base64 without padding.
const fromOlm = (text) => b64(Buffer.from(text, "base64"));
const toOlm = (text) => unb64(text).toString("base64").replace(/=+$/, "");
export const sha256 = (bytes) => crypto.createHash("sha256").update(bytes).digest();
const utf8 = (text) => Buffer.from(text, "utf8");
export const labelled = (label, value) => Buffer.concat([utf8(label + "\n"), utf8(canonicalize(value))]);
const arrayBuffer = (bytes) => new Uint8Array(bytes).buffer;

// --- Ed25519 and X25519

export const signingKey = (seed) =>
  crypto.createPrivateKey({ key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]), format: "der", type: "pkcs8" });
export const publicOf = (key) => crypto.createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
export const sign = (key, message) => crypto.sign(null, message, key);
export const verify = (raw, message, signature) => {
  const key = crypto.createPublicKey({ key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]), format: "der", type: "spki" });
  return crypto.verify(null, message, key, signature);
};
export const agreementPublic = async (secret) => {
  const key = await suite.kem.importKey("raw", arrayBuffer(secret), false);
  const pkcs8 = crypto.createPrivateKey({ key: Buffer.concat([Buffer.from("302e020100300506032b656e04220420", "hex"), secret]), format: "der", type: "pkcs8" });
  return { key, raw: crypto.createPublicKey(pkcs8).export({ format: "der", type: "spki" }).subarray(-32) };
};

// --- padding and the body

export function paddedLength(length) {
  const sum = length + 4;
  if (sum <= 256) return 256;
  const exponent = Math.floor(Math.log2(sum));
  const kept = Math.floor(Math.log2(exponent)) + 1;
  const step = 2 ** (exponent - kept);
  return Math.ceil(sum / step) * step;
}

export function pad(text) {
  const padded = Buffer.alloc(paddedLength(text.length));
  padded.writeUInt32BE(text.length, 0);
  text.copy(padded, 4);
  return padded;
}

export function unpad(padded) {
  const length = padded.readUInt32BE(0);
  if (paddedLength(length) !== padded.length) throw new Error("wrong padding");
  if (padded.subarray(4 + length).some((byte) => byte !== 0)) throw new Error("wrong padding");
  return padded.subarray(4, 4 + length);
}

export const bodyAad = (hash) => Buffer.concat([utf8("a2h/body/v1"), hash]);

export function encrypt(key, nonce, aad, text) {
  const cipher = crypto.createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(aad);
  return Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

export function decrypt(key, nonce, aad, ct) {
  const cipher = crypto.createDecipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(aad);
  cipher.setAuthTag(ct.subarray(-16));
  return Buffer.concat([cipher.update(ct.subarray(0, -16)), cipher.final()]);
}

// --- streams

export const counter = (seq) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(seq));
  return bytes;
};
export const streamNonce = (prefix, seq) => Buffer.concat([prefix, counter(seq)]);
export const streamAad = (hash, seq, final) => Buffer.concat([utf8("a2h/stream/v1"), hash, counter(seq), Buffer.from([final ? 1 : 0])]);

export class StreamReader {
  constructor(hdr, payload) {
    if (payload.event !== "stream") throw new Error("no stream");
    [this.hash, this.key, this.prefix, this.due] = [sha256(canonicalize(hdr)), unb64(payload.key), unb64(payload.prefix), 1];
  }

  next(seq, final, ct) {
    if (seq !== this.due) throw new Error("out of order");
    const text = unpad(decrypt(this.key, streamNonce(this.prefix, seq), streamAad(this.hash, seq, final), ct)).toString("utf8");
    this.due = final ? 0 : seq + 1;
    return text;
  }
}

// --- the envelope

const kid = (key) => b64(sha256(key));

export async function hpkeWrap(key, hash, content, ekm) {
  const recipientPublicKey = await suite.kem.deserializePublicKey(arrayBuffer(key));
  const context = await suite.createSenderContext({ recipientPublicKey, info: arrayBuffer(utf8("a2h/cek/v1")), ...(ekm && { ekm: arrayBuffer(ekm) }) });
  const ct = await context.seal(arrayBuffer(content), arrayBuffer(hash));
  return { enc: b64(context.enc), ct: b64(ct), kid: kid(key) };
}

export async function hpkeUnwrap(recipientKey, hash, entry) {
  const context = await suite.createRecipientContext({ recipientKey, enc: arrayBuffer(unb64(entry.enc)), info: arrayBuffer(utf8("a2h/cek/v1")) });
  return Buffer.from(await context.open(arrayBuffer(unb64(entry.ct)), arrayBuffer(hash)));
}

export function signatureInput(hash, body, to) {
  return Buffer.concat([utf8("a2h/sig/v1"), hash, sha256(canonicalize(body)), sha256(canonicalize(to))]);
}

export const header = (letter, owner, device) => {
  const [kind, id] = owner.split(":");
  return {
    v: "a2h-envelope-v1",
    conversation_id: letter.conversation_id,
    conversation_type: letter.conversation_type,
    sender_id: id,
    sender_type: kind === "person" ? "human" : "agent",
    sender_device_id: device,
    client_message_id: letter.client_message_id,
    content_type: letter.content_type,
    created_at: letter.created_at,
    ...(letter.msg_subtype && { msg_subtype: letter.msg_subtype }),
    ...(letter.in_reply_to && { in_reply_to: letter.in_reply_to }),
  };
};

// --- a party

export class Party {
  static async create(owner, device, mode) {
    const party = new Party();
    Object.assign(party, { owner, device, mode, peers: new Map(), sessions: new Map(), seen: new Set() });
    party.signing = signingKey(crypto.randomBytes(32));
    party.agreement = await agreementPublic(crypto.randomBytes(32));
    if (mode === "stateful") {
      party.account = new Olm.Account();
      party.account.create();
    }
    const keys = {
      device_id: device,
      owner,
      signing_key: b64(publicOf(party.signing)),
      hpke_key: b64(party.agreement.raw),
      ...(party.account && { olm_key: fromOlm(JSON.parse(party.account.identity_keys()).curve25519) }),
      mode,
      algs: party.account ? [OLM, HPKE] : [HPKE],
      seq: 1,
      created_at: "2026-11-15T11:00:00.000Z",
    };
    party.bundle = { ...keys, signature: b64(sign(party.signing, labelled("nuncio/key-bundle/v1", keys))) };
    return party;
  }

  oneTimeKeys(count) {
    if (!this.account) return [];
    this.account.generate_one_time_keys(count);
    this.account.generate_fallback_key();
    const signed = (keys, fallback) =>
      Object.entries(JSON.parse(keys).curve25519).map(([id, text]) => {
        const [key_id, key] = [(fallback ? "f" : "k") + id.replaceAll("+", "-").replaceAll("/", "_"), fromOlm(text)];
        const message = labelled("nuncio/one-time-key/v1", [this.device, key_id, key, fallback]);
        return { key_id, key, ...(fallback && { fallback }), signature: b64(sign(this.signing, message)) };
      });
    const keys = [...signed(this.account.one_time_keys(), false), ...signed(this.account.unpublished_fallback_key(), true)];
    this.account.mark_keys_as_published();
    return keys;
  }

  meet(bundle) {
    const { signature, did, endorsement, ...keys } = bundle;
    if (!verify(unb64(keys.signing_key), labelled("nuncio/key-bundle/v1", keys), unb64(signature))) throw new Error("bad bundle");
    this.peers.set(`${keys.owner}/${keys.device_id}`, bundle);
  }

  wrapFor(type, mode) {
    return type !== "group" && this.mode === "stateful" && mode === "stateful" ? OLM : HPKE;
  }

  async seal(letter, to) {
    const hdr = header(letter, this.owner, this.device);
    const hash = sha256(canonicalize(hdr));
    const [cek, nonce] = [crypto.randomBytes(32), crypto.randomBytes(12)];
    const ct = encrypt(cek, nonce, bodyAad(hash), pad(utf8(JSON.stringify(letter.payload))));
    const body = { nonce: b64(nonce), ct: b64(ct) };
    const content = Buffer.concat([cek, hash]);
    const entries = [];
    for (const { bundle, one_time_key } of to) {
      const peer = `${bundle.owner}/${bundle.device_id}`;
      if (canonicalize(this.peers.get(peer)) !== canonicalize(bundle)) throw new Error("untrusted");
      if (this.wrapFor(letter.conversation_type, bundle.mode) === HPKE) {
        entries.push({ device_id: bundle.device_id, alg: HPKE, ...(await hpkeWrap(unb64(bundle.hpke_key), hash, content)) });
        continue;
      }
      if (!this.sessions.has(peer)) {
        const { key_id, key, fallback, signature } = one_time_key;
        const message = labelled("nuncio/one-time-key/v1", [bundle.device_id, key_id, key, fallback ?? false]);
        if (!verify(unb64(bundle.signing_key), message, unb64(signature))) throw new Error("bad one-time key");
        const session = new Olm.Session();
        session.create_outbound(this.account, toOlm(bundle.olm_key), toOlm(key));
        this.sessions.set(peer, [session]);
      }
      const message = this.sessions.get(peer)[0].encrypt(b64(content));
      entries.push({ device_id: bundle.device_id, alg: OLM, type: message.type, ct: fromOlm(message.body) });
    }
    const sig = b64(sign(this.signing, signatureInput(hash, body, entries)));
    // Only the header must be in its canonical form.
    return `{"hdr":${canonicalize(hdr)},"to":${JSON.stringify(entries)},"body":${JSON.stringify(body)},"sig":${JSON.stringify(sig)}}`;
  }

  async open(sender, text) {
    const { hdr, body, to, sig } = JSON.parse(text);
    const hash = sha256(canonicalize(hdr));
    if (!text.includes(`"hdr":${canonicalize(hdr)}`) || hdr.v !== "a2h-envelope-v1") throw new Error("malformed");
    const [kind, id] = sender.split(":");
    if (hdr.sender_id !== id || hdr.sender_type !== (kind === "person" ? "human" : "agent")) throw new Error("mislabelled");
    const peer = `${sender}/${hdr.sender_device_id}`;
    const bundle = this.peers.get(peer);
    if (!bundle) throw new Error("unknown sender");
    if (!verify(unb64(bundle.signing_key), signatureInput(hash, body, to), unb64(sig))) throw new Error("bad signature");
    const name = `${peer} ${hdr.client_message_id}`;
    if (this.seen.has(name)) throw new Error("replayed");
    const mine = (entry) => entry.device_id === this.device && (entry.alg === OLM || entry.kid === kid(this.agreement.raw));
    const [entry, second] = to.filter(mine);
    if (!entry || second) throw new Error("not for us");
    if (entry.alg !== this.wrapFor(hdr.conversation_type, bundle.mode)) throw new Error("downgraded");
    const content = entry.alg === HPKE ? await hpkeUnwrap(this.agreement.key, hash, entry) : this.ratchet(peer, bundle, entry);
    if (content.length !== 64 || !content.subarray(32).equals(hash)) throw new Error("tampered");
    const plain = unpad(decrypt(content.subarray(0, 32), unb64(body.nonce), bodyAad(hash), unb64(body.ct)));
    this.seen.add(name);
    return { hdr, payload: JSON.parse(plain.toString("utf8")), alg: entry.alg, type: entry.type };
  }

  ratchet(peer, bundle, { type, ct }) {
    const [identity, message] = [toOlm(bundle.olm_key), toOlm(ct)];
    const sessions = this.sessions.get(peer) ?? [];
    for (const session of sessions) {
      if (type === 0 && !session.matches_inbound_from(identity, message)) continue;
      try {
        const plain = unb64(session.decrypt(type, message));
        this.sessions.set(peer, [session, ...sessions.filter((other) => other !== session)]);
        return plain;
      } catch (error) {
        if (!String(error).includes("OLM")) throw error;
      }
    }
    if (type !== 0) throw new Error("session lost");
    const session = new Olm.Session();
    session.create_inbound_from(this.account, identity, message);
    this.account.remove_one_time_keys(session);
    this.sessions.set(peer, [session, ...sessions]);
    return unb64(session.decrypt(type, message));
  }
}

// --- safety numbers

export function safetyNumber(sides) {
  const half = ({ owner, keys }) => {
    const sorted = Buffer.concat(keys.map(unb64).sort(Buffer.compare));
    let hash = Buffer.concat([utf8(`a2h/safety/v1\n${owner}\n`), sorted]);
    for (let round = 0; round < 5200; round++) hash = crypto.createHash("sha512").update(hash).update(sorted).digest();
    return [0, 5, 10, 15, 20, 25].map((at) => String(hash.readUIntBE(at, 5) % 100000).padStart(5, "0")).join(" ");
  };
  return sides.map(half).sort().join(" ");
}
