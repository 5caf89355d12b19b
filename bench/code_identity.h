// Which code and which machine a result was made by.
#ifndef DPIPE_BENCH_CODE_IDENTITY_H_
#define DPIPE_BENCH_CODE_IDENTITY_H_

#include <string>

#include "core/report/results.h"

namespace dpipe::bench {

// Sets the machine, with its GPUs where the results' backend is cuda, the date, the libraries'
// versions and what this program is:
//   versions["program"]   a fingerprint of its executable file, which holds all of this project's
//                         code, so that equal ones are equal code
//   versions["revision"]  the workspace's git revision, "-dirty" behind it where files differ from
//                         it; "unknown" outside of one. For people: a program may be older.
// Of a program that a bundle (//tools/cuda) starts, the environment says both: DPIPE_PROGRAM_FILE
// and DPIPE_REVISION.
void DescribeRun(report::BenchResults* results);

// What makes results of two runs not comparable without saying so: other programs, revisions,
// libraries or machines. A phrase that names both values; "" where there is nothing.
std::string CodeDifference(const report::BenchResults& a, const report::BenchResults& b);
std::string MachineDifference(const report::BenchResults& a, const report::BenchResults& b);

// Machines of one class may be compared: "intel_xeon_processor-2_cores-23_gib"; where GPUs were
// measured "intel_xeon_processor-16_cores-nvidia_h200".
std::string MachineClass(const report::MachineInfo& machine);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_CODE_IDENTITY_H_
