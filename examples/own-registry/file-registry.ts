// The registry as a process opens it: for the processes that `prove-restarts.ts` starts and kills.

import { documentRegistry } from "./document-registry.ts";
import { fileDocument } from "./file-document.ts";
import type { Registry } from "snowlease";

export default function open(): Registry {
  const { DOCUMENT_FOLDER } = process.env;
  if (DOCUMENT_FOLDER === undefined) throw new Error("DOCUMENT_FOLDER names no folder");
  return documentRegistry(fileDocument(DOCUMENT_FOLDER));
}
