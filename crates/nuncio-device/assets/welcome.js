// Reads a chosen backup file into the field where it could also be pasted.

import { byId } from "./dom.js";

byId("choose").hidden = false;
byId("chosen").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) byId("file").value = await file.text();
});
