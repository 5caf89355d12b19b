// What a search says about its candidates.
#ifndef DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_
#define DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_

#include <vector>

#include "core/planner/search.h"
#include "core/planner/search/frontier.h"

namespace dpipe {

// The best one, then the others: simulated ones by step, then those that were not in the order of
// `candidates`; at most `max`. Each with a sentence that says why it lost.
std::vector<PlanCandidate> ReportAll(const Candidate& best, std::vector<Candidate> candidates,
                                     int max);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_
