#include "tools/run_control/fault_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/count.h"
#include "core/train/batch_dump.h"

namespace dpipe::tools {
namespace {

// The maximum number of skipped images that are named; the rest are counted.
constexpr size_t kImagesNamed = 5;

}  // namespace

void FaultWatch::OnStep(const StepResult& step) {
  if (step.applied) return;
  ++num_skipped_;
  const bool continues =
      options_.max_skipped_in_a_row > 0;  // if not, the run's error gives the rest
  std::string line =
      absl::StrCat("Warning:  step ", step.step + 1, " is not finite (loss ", step.loss,
                   ", gradient norm ", step.grad_norm, ")", continues ? ": step skipped" : "");
  if (num_dumped_ < options_.num_dumps) {
    ++num_dumped_;
    const auto path = Dump(step);
    absl::StrAppend(&line, path.ok() ? absl::StrCat("; its batch is in ", *path)
                                     : absl::StrCat("; its batch could not be written: ",
                                                    path.status().message()));
  }
  lines_.push_back(std::move(line));
}

absl::StatusOr<std::string> FaultWatch::Dump(const StepResult& step) const {
  BatchDump dump;
  dump.model = model_;
  dump.inputs = inputs_;
  dump.step = step;
  dump.global_batch = global_batch_;
  dump.describe_sample = [this, &step](int sample) -> std::string {
    const auto indices = loader_->Indices(step.step, {sample, sample + 1});
    if (!indices.ok()) return std::string(indices.status().message());
    return loader_->dataset().image_path((*indices)[0]);
  };
  return DumpBatch(dump, options_.dump_folder);
}

std::vector<std::string> FaultWatch::TakeLines() { return std::exchange(lines_, {}); }

std::vector<std::string> FaultWatch::Summary() const {
  std::vector<std::string> lines;
  if (num_skipped_ > 0) {
    lines.push_back(absl::StrCat("Skipped:  ", Count(num_skipped_, "step"),
                                 num_skipped_ == 1 ? " that was" : " that were", " not finite"));
  }
  for (const std::string& finding : loader_->dataset().findings()) {
    lines.push_back(absl::StrCat("Note:     ", finding));
  }
  const std::vector<QuarantinedSample> images = loader_->Quarantine();
  if (images.empty()) return lines;
  lines.push_back(absl::StrCat("Skipped:  ", Count(images.size(), "image"),
                               " that cannot be decoded; replaced by others"));
  for (size_t i = 0; i < images.size() && i < kImagesNamed; ++i) {
    lines.push_back(absl::StrCat("          ", images[i].ToString()));
  }
  if (images.size() > kImagesNamed) {
    lines.push_back(absl::StrCat("          and ", images.size() - kImagesNamed, " more"));
  }
  return lines;
}

}  // namespace dpipe::tools
