// Notes in a result the code and the machine that produced it.
#ifndef DPIPE_BENCH_COMPARISON_DESCRIBE_RUN_H_
#define DPIPE_BENCH_COMPARISON_DESCRIBE_RUN_H_

#include "core/proto/results.pb.h"

namespace dpipe::bench {

// Sets the machine (with its GPUs if the results' backend is cuda), the date, the versions of
// libraries, and the identity of this program:
//
//   versions["program"]   fingerprint of the executable file, which contains all of this project's
//                         code: equal fingerprints mean equal code
//   versions["revision"]  git revision of the workspace, with "-dirty" appended if files differ
//                         from it; "unknown" outside of a workspace. For people only, because the
//                         program may be older than the workspace.
//
// If a bundle (//tools/cuda) started the program, the environment variables DPIPE_PROGRAM_FILE and
// DPIPE_REVISION provide both.
void DescribeRun(CaseResult* results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_DESCRIBE_RUN_H_
