#include "models/stable_diffusion/frozen_cache.h"

#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/nn/execution.h"

namespace dpipe::models {
namespace {

// The first layer that reads the named input.
int FirstReader(const nn::Program& program, const std::string& input) {
  const ValueId id = program.InputNamed(input);
  const nn::ValueInfo& info = program.value(id);
  DPIPE_CHECK(!info.uses.empty()) << input << " is never read";
  return program.node(info.uses.front()).layer;
}

// One sample's place in the data set, and where a loader finds it.
struct Item {
  int32_t index;
  int64_t step;
  int sample;
};

absl::StatusOr<std::vector<Item>> DistinctItems(DataLoader* loader, int64_t first_step,
                                                int64_t num_steps) {
  std::set<int32_t> seen;
  std::vector<Item> items;
  const SampleRange batch{0, loader->options().global_batch};
  for (int64_t step = first_step; step < first_step + num_steps; ++step) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, loader->Indices(step, batch));
    for (int i = 0; i < batch.size(); ++i) {
      if (seen.insert(indices[i]).second) items.push_back({indices[i], step, i});
    }
    if (static_cast<int32_t>(seen.size()) == loader->dataset().size()) break;
  }
  return items;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrozenCache>> FrozenCache::Build(
    const Request& request, const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) {
  const DataLoaderOptions& loading = request.loader->options();
  if (loading.random_crop || loading.random_flip) {
    return absl::FailedPreconditionError(
        "an offline cache holds one view of each image: it cannot be used with random crop or "
        "flip");
  }
  auto cache = std::unique_ptr<FrozenCache>(new FrozenCache());
  cache->model_ = request.model;
  cache->compute_dtype_ = request.compute_dtype;
  cache->first_noisy_layer_ =
      FirstReader(request.model->model().component(kVaeEncoder).program, "vae_noise");
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Item> items,
                         DistinctItems(request.loader, request.first_step, request.num_steps));
  const ClipTokenizer& tokenizer = request.model->tokenizer();
  std::set<std::vector<int32_t>> texts = {tokenizer.Encode("")};  // what a dropped caption becomes
  for (const Item& item : items) {
    DPIPE_ASSIGN_OR_RETURN(const std::string caption,
                           request.loader->dataset().LoadCaption(item.index));
    texts.insert(tokenizer.Encode(caption));
  }
  const std::vector<std::vector<int32_t>> captions(texts.begin(), texts.end());

  const size_t total = items.size() + captions.size();
  std::atomic<size_t> next{0};
  const int64_t pixels = int64_t{3} * loading.image_size * loading.image_size;
  const auto statuses = RunOnAll(workers, [&](int worker) -> absl::Status {
    std::vector<float> buffer(pixels);
    for (size_t i = next++; i < total; i = next++) {
      if (i < items.size()) {
        const Item& item = items[i];
        DPIPE_RETURN_IF_ERROR(
            request.loader->LoadPixels(item.step, {item.sample, item.sample + 1}, buffer.data()));
        DPIPE_RETURN_IF_ERROR(
            cache->AddImage(request, item.index, buffer.data(), workers[worker]->device()));
      } else {
        DPIPE_RETURN_IF_ERROR(
            cache->AddCaption(request, captions[i - items.size()], workers[worker]->device()));
      }
      if (worker == 0 && on_progress) on_progress(static_cast<double>(i + 1) / total);
    }
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(FirstError(statuses));
  return cache;
}

absl::Status FrozenCache::AddImage(const Request& request, int32_t index, const float* pixels,
                                   const std::shared_ptr<Device>& device) {
  const nn::Program& program = model_->model().component(kVaeEncoder).program;
  const ValueId input = program.InputNamed("pixels");
  const Shape shape = program.BatchShape(input, 1);
  nn::ValueMap values;
  values[input] =
      Tensor::FromHost<float>(device, shape, absl::MakeConstSpan(pixels, shape.num_elements()));
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, {0, first_noisy_layer_},
                                    *model_->frozen_parameters()[kVaeEncoder], options, &values,
                                    /*state=*/nullptr));
  std::map<ValueId, Tensor> kept;
  int64_t size = 0;
  for (ValueId id : program.LiveAt(first_noisy_layer_)) {
    kept[id] = values[id];
    size += values[id].size_bytes();
  }
  absl::MutexLock lock(&mutex_);
  images_[index] = std::move(kept);
  size_bytes_ += size;
  return absl::OkStatus();
}

absl::Status FrozenCache::AddCaption(const Request& request, const std::vector<int32_t>& ids,
                                     const std::shared_ptr<Device>& device) {
  const nn::Program& program = model_->model().component(kTextEncoder).program;
  const ValueId input = program.InputNamed("ids");
  nn::ValueMap values;
  values[input] =
      Tensor::FromHost<int32_t>(device, program.BatchShape(input, 1), absl::MakeConstSpan(ids));
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, program.all_layers(),
                                    *model_->frozen_parameters()[kTextEncoder], options, &values,
                                    /*state=*/nullptr));
  const Tensor embedding = values[program.OutputNamed("last_hidden_state")];
  absl::MutexLock lock(&mutex_);
  captions_[ids] = embedding;
  size_bytes_ += embedding.size_bytes();
  return absl::OkStatus();
}

absl::StatusOr<Tensor> FrozenCache::Latents(const std::vector<int32_t>& indices,
                                            const Tensor& noise) const {
  const nn::Program& program = model_->model().component(kVaeEncoder).program;
  std::vector<Tensor> latents;
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto entry = images_.find(indices[i]);
    if (entry == images_.end()) {
      return absl::NotFoundError(absl::StrCat(
          "image ", indices[i], " is not in the offline cache of ", images_.size(), " images"));
    }
    nn::ValueMap values(entry->second.begin(), entry->second.end());
    values[program.InputNamed("vae_noise")] = noise.Slice(i, i + 1);
    DPIPE_RETURN_IF_ERROR(nn::Forward(program, {first_noisy_layer_, program.num_layers()},
                                      *model_->frozen_parameters()[kVaeEncoder], options, &values,
                                      /*state=*/nullptr));
    latents.push_back(values[program.OutputNamed("latents")]);
  }
  return ConcatBatch(latents);
}

absl::StatusOr<Tensor> FrozenCache::Context(const std::vector<std::vector<int32_t>>& ids,
                                            const std::shared_ptr<Device>& device) const {
  std::vector<Tensor> rows;
  for (const std::vector<int32_t>& text : ids) {
    const auto entry = captions_.find(text);
    if (entry == captions_.end()) {
      return absl::NotFoundError(
          absl::StrCat("a caption is not in the offline cache of ", captions_.size(), " captions"));
    }
    rows.push_back(entry->second);
  }
  return ConcatBatch(rows);
}

}  // namespace dpipe::models
