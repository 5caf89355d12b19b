// What a search says about its candidates.
#ifndef DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_
#define DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_

#include <string>

#include "core/base/time.h"
#include "core/planner/frontier.h"
#include "core/planner/search.h"

namespace dpipe {

PlanCandidate Report(const Candidate& candidate, std::string outcome);
// A sentence.
std::string WhyItLost(const Candidate& candidate, Nanos best_step_ns);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_
