#include "core/planner/candidate_report.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

PlanCandidate Report(const Candidate& candidate, std::string outcome) {
  PlanCandidate report;
  report.schedule = candidate.shape.schedule;
  report.shard = NameOf(candidate.shape.sharding);
  report.num_stages = candidate.shape.num_stages;
  report.num_micro_batches = candidate.shape.num_micro_batches;
  report.devices_per_pipeline = candidate.shape.devices_per_pipeline;
  if (!candidate.cut.stages.empty()) report.stages = candidate.cut.stages[0];
  report.recompute =
      std::count(candidate.cut.recompute.begin(), candidate.cut.recompute.end(), true) > 0;
  report.frozen_hosts = candidate.shape.frozen_hosts;
  report.estimate_ns = candidate.estimate_ns;
  report.step_ns = candidate.step_ns;
  report.bubble_ratio = candidate.bubble_ratio;
  report.outcome = std::move(outcome);
  if (!candidate.cut.note.empty()) absl::StrAppend(&report.outcome, "; ", candidate.cut.note);
  return report;
}

std::string WhyItLost(const Candidate& candidate, Nanos best_step_ns) {
  if (!candidate.outcome.empty()) return candidate.outcome;
  if (candidate.step_ns == 0) {
    const Nanos expected_ns =
        candidate.cut_estimate_ns > 0 ? candidate.cut_estimate_ns : candidate.estimate_ns;
    return absl::StrCat("not simulated: its estimated step of ", FormatDuration(expected_ns),
                        " ranks behind those that were");
  }
  if (candidate.step_ns == best_step_ns) return "its step is as long as the chosen one's";
  return absl::StrCat("its step of ", FormatDuration(candidate.step_ns), " is ",
                      absl::StrFormat("%.1f %%", 100.0 * candidate.step_ns / best_step_ns - 100),
                      " longer than the chosen one's");
}

}  // namespace

std::vector<PlanCandidate> ReportAll(const Candidate& best, std::vector<Candidate> candidates,
                                     int max) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if ((a.step_ns > 0) != (b.step_ns > 0)) return a.step_ns > 0;
                     return a.step_ns > 0 && IsBetter(a, b);
                   });
  std::vector<PlanCandidate> reports = {Report(best, "chosen")};
  for (const Candidate& candidate : candidates) {
    if (static_cast<int>(reports.size()) >= max) break;
    if (Order(candidate) == Order(best)) continue;
    reports.push_back(Report(candidate, WhyItLost(candidate, best.step_ns)));
  }
  return reports;
}

}  // namespace dpipe
