// The code and the machine that produced results.
#ifndef DPIPE_CORE_REPORT_RESULTS_ORIGIN_H_
#define DPIPE_CORE_REPORT_RESULTS_ORIGIN_H_

#include <string>
#include <vector>

#include "core/proto/results.pb.h"

namespace dpipe::report {

// Returns machine, revision, program and date as a sentence.
std::string OriginText(const CaseResult& results);

// Return the reasons why results of two runs are not comparable without a remark: other programs,
// revisions, libraries or machines, as a phrase with both values; "" if there are none.
std::string CodeDifference(const CaseResult& a, const CaseResult& b);
std::string MachineDifference(const CaseResult& a, const CaseResult& b);

// Returns a sentence per case that differs in code or machine from the first. Empty if none does.
std::vector<std::string> MixedOrigins(const Results& results);

// Returns a name for machines that may be compared: "intel_xeon_processor-2_cores-23_gib", or if
// GPUs were measured "intel_xeon_processor-16_cores-nvidia_h200".
std::string MachineClass(const MachineInfo& machine);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_ORIGIN_H_
