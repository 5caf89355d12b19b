#include "tools/run_logs/sample_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "data/images/image_encode.h"
#include "data/images/image_grid.h"

namespace dpipe::tools {
namespace {

constexpr size_t kMinGridImages = 4, kMaxGridImages = 16;
constexpr int32_t kMaxSearchedSamples = 1000;  // shards are read from storage

}  // namespace

std::vector<std::string> GridPrompts(const TrainerOptions& options, const SampleSource& data) {
  if (!options.sample_prompts.empty()) return options.sample_prompts;
  std::vector<std::string> prompts;
  const int32_t num_searched = std::min(data.size(), kMaxSearchedSamples);
  for (int32_t i = 0; i < num_searched && prompts.size() < kMaxGridImages; ++i) {
    // Training skips the samples whose captions cannot be read, and reports them.
    const auto captions = data.LoadCaptions(i);
    if (!captions.ok()) continue;
    const std::string& caption = captions->front();
    const bool is_new = std::find(prompts.begin(), prompts.end(), caption) == prompts.end();
    if (is_new) prompts.push_back(caption);
  }
  if (prompts.empty()) prompts.push_back("");
  const size_t num_distinct = prompts.size();
  while (prompts.size() < kMinGridImages) {
    prompts.push_back(std::string(prompts[prompts.size() - num_distinct]));
  }
  return prompts;
}

std::vector<std::string> SuggestedPrompts(const models::TrainableModel& model,
                                          const models::DrawOptions& options,
                                          std::vector<std::string> prompts) {
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<std::string> chosen;
  for (const std::string& prompt : prompts) {
    const bool is_new = std::find(chosen.begin(), chosen.end(), prompt) == chosen.end();
    const bool fits = !prompt.empty() && !absl::StrContains(prompt, '|');
    if (is_new && fits && model.CheckDraw({prompt}, options).ok()) chosen.push_back(prompt);
    if (chosen.size() == 2) break;
  }
  return chosen;
}

absl::StatusOr<models::DrawRequest> GridRequest(const models::TrainableModel& model,
                                                const std::vector<std::string>& prompts,
                                                DataLoader* loader) {
  models::DrawRequest request;
  request.prompts = prompts;
  if (!model.wants_conditions()) return request;
  const int size = model.image_size();
  const int count = std::min<int>(kMaxGridImages, loader->options().global_batch);
  const int64_t step = loader->order().first_step();
  DPIPE_ASSIGN_OR_RETURN(request.prompts, loader->Captions(step, {0, count}));
  std::vector<float> pixels(static_cast<size_t>(count) * size * size * 3);
  DPIPE_RETURN_IF_ERROR(loader->LoadConditions(step, {0, count}, pixels.data()));
  for (int i = 0; i < count; ++i) {
    Image condition(size, size);
    const float* first = pixels.data() + i * condition.pixels.size();
    for (size_t k = 0; k < condition.pixels.size(); ++k) {
      condition.pixels[k] = static_cast<uint8_t>(std::lround(first[k] * 255));
    }
    request.conditions.push_back(std::move(condition));
  }
  return request;
}

absl::Status CheckGrids(const models::TrainableModel& model, const TrainerOptions& options,
                        const std::vector<std::string>& prompts,
                        const std::function<void(const std::string& line)>& say) {
  if (!options.sample_at_end && options.sample_every == 0) return absl::OkStatus();
  constexpr char kNoneFlags[] = "--samples=false --sample_every=0 draws none";
  const absl::Status drawn = model.CheckDraw(/*prompts=*/{}, options.draw);
  if (!drawn.ok()) {
    return absl::Status(drawn.code(),
                        absl::StrCat("--samples.*: ", drawn.message(), "; ", kNoneFlags));
  }
  const std::string note = model.SamplerNote(options.draw);
  if (!note.empty()) say(absl::StrCat("Note:     sample images: ", note));
  // Such a model draws samples of its data set, not prompts.
  if (model.wants_conditions()) return absl::OkStatus();
  const absl::Status status = model.CheckDraw(prompts, options.draw);
  if (status.ok()) return status;
  const std::string message =
      absl::StrCat("--samples.prompts: ", status.message(), "; ", kNoneFlags);
  if (!options.sample_prompts.empty()) return absl::Status(status.code(), message);
  say(absl::StrCat("Warning:  ", message));
  return absl::OkStatus();
}

absl::StatusOr<std::string> DrawSampleGrid(const models::TrainableModel& model,
                                           const models::NamedTensors& weights,
                                           const models::DrawRequest& request,
                                           const std::vector<DeviceWorker*>& workers,
                                           const std::string& folder, int64_t step, LongTask* task,
                                           TrainingObserver* observer) {
  models::DrawRequest stoppable = request;
  stoppable.options.should_stop = [task] { return task->should_stop(); };
  DPIPE_ASSIGN_OR_RETURN(
      const std::vector<Image> images,
      model.Draw(weights, stoppable, workers, [task](double done) { task->OnProgress(done); }));
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
  const Image grid = MakeGrid(images, {columns, /*margin=*/4, /*zoom=*/2, request.prompts});
  DPIPE_ASSIGN_OR_RETURN(const std::string png, EncodePng(grid));
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = absl::StrFormat("%s/step_%06d.png", folder, step);
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, png));
  observer->OnSamples({step, path, &grid});
  return path;
}

}  // namespace dpipe::tools
