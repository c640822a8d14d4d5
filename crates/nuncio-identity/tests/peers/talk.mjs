// A party in a process of its own: one request a line, one answer a line.

import { createInterface } from "node:readline";
import { Olm, Party, StreamReader, safetyNumber, unb64 } from "./sealing.mjs";
import { check } from "./vectors.mjs";

await Olm.init();
let party;
const answers = {
  create: async ({ owner, device_id, mode }) => {
    party = await Party.create(owner, device_id, mode);
    return { bundle: party.bundle, keys: party.oneTimeKeys(5) };
  },
  meet: ({ bundle }) => party.meet(bundle),
  seal: ({ letter, to }) => party.seal(letter, to),
  open: ({ sender, envelope }) => party.open(sender, envelope),
  stream: async ({ sender, envelope, pieces }) => {
    const { hdr, payload, alg } = await party.open(sender, envelope);
    const reader = new StreamReader(hdr, payload);
    return { alg, texts: pieces.map(({ seq, final, ct }) => reader.next(seq, final, unb64(ct))) };
  },
  safety: ({ sides }) => safetyNumber(sides),
  vectors: ({ vectors }) => check(vectors),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { ask, ...rest } = JSON.parse(line);
  let answer;
  try {
    answer = { ok: (await answers[ask](rest)) ?? null };
  } catch (error) {
    answer = { error: error?.message ?? String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
