// Package convert is the only place where what HTTP clients see becomes what the
// log holds, and back. It fills in defaults, once, by the server that takes the
// request, and collects everything that is wrong with one. It neither reads
// requests nor writes answers, and knows no cell: it imports api, tenancy,
// dataplane/job, op and state.
package convert
