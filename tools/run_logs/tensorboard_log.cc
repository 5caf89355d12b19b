#include "tools/run_logs/tensorboard_log.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "data/images/image_encode.h"

namespace dpipe::tools {

using report::tensorboard::EventWriter;

absl::StatusOr<std::unique_ptr<TensorBoardLog>> TensorBoardLog::Create(const std::string& folder,
                                                                       int64_t first_step) {
  EventWriter::Options options;
  options.folder = folder;
  options.first_step = first_step;
  DPIPE_ASSIGN_OR_RETURN(auto writer, EventWriter::Create(options));
  return std::unique_ptr<TensorBoardLog>(new TensorBoardLog(std::move(writer)));
}

void TensorBoardLog::OnStart(const RunStart& start) {
  // Markdown treats text indented by four spaces as code.
  writer_->Text(start.first_step, "config",
                absl::StrCat("    ", absl::StrReplaceAll(start.config, {{"\n", "\n    "}})));
}

void TensorBoardLog::OnStep(const StepReport& step) {
  std::vector<std::pair<std::string, double>> values = {
      {"train/loss", step.loss},
      {"train/mean_loss", step.mean_loss},
      {"train/lr", step.learning_rate},
      {"train/images_per_second", step.images_per_second},
      {"train/step_seconds", step.seconds},
      {"train/epoch", step.epoch}};
  if (!(step.grad_norm < 0)) values.emplace_back("train/grad_norm", step.grad_norm);
  if (step.share_of_peak > 0) values.emplace_back("train/share_of_peak", step.share_of_peak);
  for (size_t i = 0; i < step.peak_memory_bytes.size(); ++i) {
    values.emplace_back(absl::StrCat("memory/peak_bytes_of_device_", i),
                        static_cast<double>(step.peak_memory_bytes[i]));
  }
  writer_->Scalars(step.step, values);
}

void TensorBoardLog::OnEvaluation(const EvaluationReport& evaluation) {
  const std::string group = absl::StrCat("eval_", evaluation.weights, "/");
  std::vector<std::pair<std::string, double>> values = {{group + "mean", evaluation.mean}};
  for (size_t i = 0; i < evaluation.quantiles.size(); ++i) {
    values.emplace_back(absl::StrFormat("%sq%g", group, evaluation.quantiles[i]),
                        evaluation.losses[i]);
  }
  writer_->Scalars(evaluation.step, values);
}

void TensorBoardLog::OnSamples(const SamplesReport& samples) {
  if (samples.grid == nullptr) return;
  const auto png = EncodePng(*samples.grid);
  status_.Update(png.status());
  if (!png.ok()) return;
  writer_->Image(samples.step, "samples", samples.grid->width, samples.grid->height, *png);
}

absl::Status TensorBoardLog::Flush() {
  absl::Status status = std::exchange(status_, absl::OkStatus());
  status.Update(writer_->Flush());
  return status;
}

}  // namespace dpipe::tools
