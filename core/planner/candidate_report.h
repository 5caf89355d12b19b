// Reports the candidates of a search.
#ifndef DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_
#define DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_

#include <vector>

#include "core/planner/search.h"
#include "core/planner/search/frontier.h"

namespace dpipe {

// Returns at most `max` reports: the best candidate, then the simulated ones by step, then the
// others in the order of `candidates`. Each report's outcome says why the candidate lost.
std::vector<PlanCandidate> ReportAll(const Candidate& best, std::vector<Candidate> candidates,
                                     int max);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_CANDIDATE_REPORT_H_
