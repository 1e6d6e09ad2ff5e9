// Reports words of an earlier vocabulary in Go comments and function names, with their places. The program uses the
// standard terms of HTTP, Go and databases, so that newcomers can read it: see the package comments of store and server.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

// Words with the number of uses allowed in 10,000 words of comments, and what to write instead.
const words = {
  what: [20, "a noun"],
  answer: [5, "response"],
  answers: [4, "responses, responds"],
  answered: [2, "responded"],
  tells: [2, "reports, logs, notifies"],
  told: [2, "reported, logged, notified"],
  anew: [0, "again, or rebuild"],
  whoever: [1, "the client, the caller"],
  nobody: [2, "no client, no one"],
  stands: [2, "is"],
  kept: [3, "cached, stored"],
  refuse: [2, "reject"],
  refused: [2, "rejected"],
  refusal: [1, "error"],
  refusals: [1, "errors"],
};
const names = new Set("admit express judge kept look rouse repeat seek settle spell take tell told withstand worded".split(" "));
const unclear = /^(What|Whoever|That)\b/; // at the beginning of a doc comment

const files = execFileSync("git", ["ls-files", "*.go"], { encoding: "utf8" })
  .split("\n")
  .filter((f) => /^(main\.go|(server|store|schema|static)\/)/.test(f) && !f.endsWith("_test.go"));
const places = new Map(Object.keys(words).map((w) => [w, []]));
const faults = [];
let count = 0;

for (const file of files) {
  let inComment = false;
  readFileSync(file, "utf8").split("\n").forEach((line, i) => {
    const place = `${file}:${i + 1}: ${line.trim()}`;
    const comment = /(?:^|\s)\/\/(?!go:)(.*)$/.exec(line)?.[1];
    const found = comment?.toLowerCase().match(/[a-z]+/g) ?? [];
    count += found.length;
    for (const word of found) places.get(word)?.push(place);
    if (comment && !inComment && line.startsWith("//") && unclear.test(comment.trim())) faults.push(`begin with the name: ${place}`);
    inComment = line.startsWith("//");
    const name = /^func (?:\([^)]*\) )?(\w+)/.exec(line)?.[1];
    if (name && names.has(name.toLowerCase())) faults.push(`rename the function: ${place}`);
  });
}
for (const [word, [limit, instead]] of Object.entries(words)) {
  const found = places.get(word);
  const rate = Math.round((found.length * 10000) / count);
  console.log(`${word}: ${rate} per 10,000 words, ${limit} allowed`);
  if (rate > limit) faults.push(`"${word}" (write ${instead}):`, ...found.map((p) => `  ${p}`));
}
if (faults.length > 0) {
  console.log(faults.join("\n"));
  process.exitCode = 1;
}
