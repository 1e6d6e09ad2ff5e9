// Reads `go test -json` and prints what `go test` would, with the whole output
// of each test that fails. A skipped test is a failure here unless its reason is
// one that holds on every machine: a missing tool must not pass for a success. With
// --all, no reason holds. That no test ran at all is a failure too.
import { createInterface } from "node:readline";

const lawful = process.argv.includes("--all") ? /^$/ : /race detector|as root|\bset [A-Z][A-Z_]+\b/i;
const outputs = new Map();
const unlawful = [];
let failed = false;
let passed = 0;

for await (const line of createInterface({ input: process.stdin })) {
  let event;
  try {
    event = JSON.parse(line);
  } catch {
    console.log(line);
    continue;
  }
  const { Action, Package, ImportPath, Test, Output } = event;
  const key = `${Package ?? ImportPath} ${Test ?? ""}`;
  if (Action === "output" && Test === undefined) {
    if (!/^(PASS\s*$|coverage:|=== )/.test(Output)) process.stdout.write(Output);
  } else if (Action === "output") {
    outputs.set(key, (outputs.get(key) ?? "") + Output);
  } else if (Action === "build-output") {
    process.stdout.write(Output);
  } else if (Action === "skip" && Test !== undefined) {
    const said = (outputs.get(key) ?? "").replace(/^(===|\s*---) .*\n/gm, "").trim();
    console.log(`skipped: ${key}: ${said}`);
    if (!lawful.test(said)) unlawful.push(key);
  } else if (Action === "fail" || Action === "build-fail") {
    failed = true;
    if (Test !== undefined) process.stdout.write(outputs.get(key) ?? "");
  }
  if (Action === "pass" && Test !== undefined) passed++;
  if (Action === "pass" || Action === "fail" || Action === "skip") outputs.delete(key);
}
// A process that dies leaves tests without a verdict.
for (const [key, output] of outputs) console.log(`no verdict: ${key}\n${output.slice(-4000)}`);
if (unlawful.length > 0) console.log(`skipped for want of something that CI has to have: ${unlawful.join(", ")}`);
if (passed === 0) console.log("no test passed");
process.exitCode = failed || passed === 0 || outputs.size > 0 || unlawful.length > 0 ? 1 : 0;
