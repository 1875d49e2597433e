/** `stockade serve` in a process of its own, with a private Redis, for the tests of one file. */

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";

/** The repository: this file is compiled to clients/typescript/dist/test. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../../../..");
const PROGRAM = process.env["STOCKADE_PROGRAM"] ?? join(ROOT, "target/debug/stockade");

export interface Service {
  url: string;
  stop(): Promise<void>;
}

/** Takes a port of its own; a server in .tools/bin is found from the repository. */
export async function startService(): Promise<Service> {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is not there: run \`cargo build\``);
  const folder = mkdtempSync(join(tmpdir(), "stockade-client-"));
  const flags = ["serve", "--listen", "127.0.0.1:0", "--log", "json", "--drain-seconds", "1", "--data-dir", folder];
  const environment = Object.entries(process.env).filter(
    ([name]) => !name.startsWith("STOCKADE_") || name === "STOCKADE_REDIS_SERVER",
  );
  const child = spawn(PROGRAM, flags, {
    cwd: ROOT, env: { ...Object.fromEntries(environment), STOCKADE_REDIS_APPENDFSYNC: "no" }, stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = await new Promise<string>((resolve, reject) => {
    const said: string[] = [];
    createInterface({ input: child.stdout }).on("line", (line) => {
      said.push(line);
      const address = /listens on (http:\/\/[\d.:]+)/.exec(line);
      if (address?.[1] !== undefined) resolve(address[1]);
    });
    child.once("exit", () => reject(new Error(`the service ended:\n${said.join("\n")}`)));
    child.once("error", reject);
  });
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
