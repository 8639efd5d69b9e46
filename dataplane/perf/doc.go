// Package perf makes the figures of docs/benchmarks.md that are taken of the data plane as a whole, in process or
// over HTTP on the loopback. It has tests only: a benchmark runs a node and its reference in the same run, and a test
// named TestMeasure compares its cases round after round, because machines are shared and noisy and only the ratio of
// two figures of one run counts. Each benchmark and test says which section of docs/benchmarks.md it makes.
// Measurements are skipped without their flag. Two tests of correctness are here because they need the load of a
// measurement, and always run: TestEveryCountIsARecount, with few jobs, and TestAViewThatHangsHoldsUpNoWrite. A
// benchmark of one package stays in that package.
package perf
