#include "core/report/plan_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/time.h"

namespace dpipe::report {
namespace {

std::string Count(int count, const char* what, const char* plural = "s") {
  return absl::StrCat(count, " ", what, count == 1 ? "" : plural);
}

}  // namespace

std::string StagesText(const Plan& plan) {
  std::vector<std::string> stages;
  for (const Stage& stage : plan.stages()) {
    stages.push_back(absl::StrCat("layers ", stage.layers().begin(), "-", stage.layers().end() - 1,
                                  " on device ", absl::StrJoin(stage.ranks(), "+")));
  }
  return absl::StrJoin(stages, "; ");
}

std::string PlanText(const Plan& plan) {
  return absl::StrCat(Count(plan.stages_size(), "stage"), " (", StagesText(plan), "), ",
                      Count(plan.num_micro_batches(), "micro-batch", "es"), " of ",
                      plan.micro_batch_size(), ", predicted step ",
                      FormatDuration(plan.prediction().step_ns()), ", bubble ratio ",
                      absl::StrFormat("%.1f %%", 100 * plan.prediction().bubble_ratio()));
}

}  // namespace dpipe::report
