// Identifies the code and the machine that produced a result.
#ifndef DPIPE_BENCH_COMPARISON_CODE_IDENTITY_H_
#define DPIPE_BENCH_COMPARISON_CODE_IDENTITY_H_

#include <string>

#include "core/report/results.h"

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
void DescribeRun(report::BenchResults* results);

// Return the reasons why results of two runs are not comparable without a remark: other programs,
// revisions, libraries or machines, as a phrase with both values; "" if there are none.
std::string CodeDifference(const report::BenchResults& a, const report::BenchResults& b);
std::string MachineDifference(const report::BenchResults& a, const report::BenchResults& b);

// Returns a name for machines that may be compared: "intel_xeon_processor-2_cores-23_gib", or if
// GPUs were measured "intel_xeon_processor-16_cores-nvidia_h200".
std::string MachineClass(const report::MachineInfo& machine);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_CODE_IDENTITY_H_
