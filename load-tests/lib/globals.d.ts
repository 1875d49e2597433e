/** What k6 has without an import, in 1.x and 2.x. */

declare const crypto: { randomUUID(): string };

declare const console: { info(text: string): void; warn(text: string): void; error(text: string): void };
