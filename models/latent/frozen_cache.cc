#include "models/latent/frozen_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/nn/execution.h"
#include "core/tensor/pass_workers.h"
#include "data/fingerprint.h"

namespace dpipe::models {
namespace {

// Returns the first layer that reads the named input.
int FirstReader(const nn::Program& program, const std::string& input) {
  const ValueId id = program.InputNamed(input);
  const nn::ValueInfo& info = program.value(id);
  DPIPE_CHECK(!info.uses.empty()) << input << " is never read";
  return program.node(info.uses.front()).layer;
}

constexpr int kCacheVersion = 1;  // increase it when the same inputs give other entries

// Returns a fingerprint of everything except inputs on which a frozen component's outputs depend.
std::string FingerprintOf(const LatentPipeline& pipeline, int component) {
  const LatentParts& parts = pipeline.parts();
  const std::string subfolder =
      component == kVaeEncoder ? "vae" : parts.text_encoders[component - kFirstTextEncoder].name;
  Fingerprint fingerprint;
  // Has constants that are not parameters: epsilons, activations, the latents' scale.
  const auto config = ReadFile(parts.folder.ConfigOf(subfolder));
  fingerprint.AddNumber(kCacheVersion).Add(config.ok() ? *config : "");
  const nn::ParameterSet& parameters = *pipeline.frozen_parameters()[component];
  for (const nn::ParameterId id : parameters.ids()) {
    const Tensor values = parameters.weight(id).As(DType::kF32);
    fingerprint.Add(parameters.program().parameter(id).name).Add(values.shape().ToString());
    fingerprint.Add(
        {static_cast<const char*>(values.raw_data()), static_cast<size_t>(values.size_bytes())});
  }
  return fingerprint.ToString();
}

// Serializes tensors: their number, then for each the dtype, rank, sides and elements.
std::string Pack(const std::vector<Tensor>& tensors) {
  std::string bytes;
  const auto append = [&bytes](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
  };
  const auto append_number = [&append](int64_t value) { append(&value, sizeof(value)); };
  append_number(static_cast<int64_t>(tensors.size()));
  for (const Tensor& tensor : tensors) {
    append_number(static_cast<int64_t>(tensor.dtype()));
    append_number(tensor.shape().rank());
    for (int i = 0; i < tensor.shape().rank(); ++i) append_number(tensor.dim(i));
    append(tensor.raw_data(), tensor.size_bytes());
  }
  return bytes;
}

// Moves a tensor to its user's device; entries and frozen parameters are on the host.
Tensor ToDevice(const Tensor& tensor, const std::shared_ptr<Device>& device) {
  return device->has_host_memory() ? tensor : tensor.CopyTo(device);
}

// Inverse of Pack. Returns an empty list for bytes that Pack did not write.
std::vector<Tensor> Unpack(absl::string_view bytes, const std::shared_ptr<Device>& device) {
  const auto take_number = [&bytes] {
    int64_t value = -1;
    if (bytes.size() < sizeof(value)) return value;
    memcpy(&value, bytes.data(), sizeof(value));
    bytes.remove_prefix(sizeof(value));
    return value;
  };
  std::vector<Tensor> tensors;
  for (int64_t count = take_number(); count > 0; --count) {
    const int64_t dtype = take_number(), rank = take_number();
    if (dtype < 0 || dtype > static_cast<int64_t>(DType::kI32) || rank < 1 || rank > 8) return {};
    int64_t elements = 1;
    std::vector<int64_t> sides;
    for (int64_t i = 0; i < rank; ++i) {
      sides.push_back(take_number());
      if (sides.back() < 1 || sides.back() > static_cast<int64_t>(bytes.size()) / elements)
        return {};
      elements *= sides.back();
    }
    Tensor tensor = Tensor::Empty(device, Shape(sides), static_cast<DType>(dtype));
    if (tensor.size_bytes() > static_cast<int64_t>(bytes.size())) return {};
    memcpy(tensor.raw_data(), bytes.data(), tensor.size_bytes());
    bytes.remove_prefix(tensor.size_bytes());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrozenCache>> FrozenCache::Build(
    const Request& request, const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) {
  const DataLoaderOptions& loading = request.loader->options();
  if (loading.random_crop || loading.random_flip || !loading.patches.empty()) {
    return absl::FailedPreconditionError(
        "an offline cache holds one view of each image: it cannot be used with random crop or "
        "flip, or with patches");
  }
  auto cache = std::unique_ptr<FrozenCache>(new FrozenCache());
  cache->pipeline_ = request.pipeline;
  cache->compute_dtype_ = request.compute_dtype;
  cache->first_noisy_layer_ =
      FirstReader(request.pipeline->model().component(kVaeEncoder).program, "vae_noise");
  if (!request.cache_folder.empty()) {
    DPIPE_ASSIGN_OR_RETURN(cache->store_, CacheStore::Open(request.cache_folder));
  }
  const int num_encoders = static_cast<int>(request.pipeline->parts().text_encoders.size());
  DPIPE_RETURN_IF_ERROR(request.pipeline->LoadFrozen(kVaeEncoder));
  for (int e = 0; e < num_encoders; ++e) {
    DPIPE_RETURN_IF_ERROR(request.pipeline->LoadFrozen(kFirstTextEncoder + e));
  }
  cache->image_prefix_ = cache->KeyPrefix(kVaeEncoder);
  for (int e = 0; e < num_encoders; ++e) {
    cache->caption_prefixes_.push_back(cache->KeyPrefix(kFirstTextEncoder + e));
  }
  cache->captions_.resize(num_encoders);
  DPIPE_RETURN_IF_ERROR(cache->ListEntries(request));
  DPIPE_RETURN_IF_ERROR(cache->Compute(request, workers, on_progress));
  if (cache->store_ != nullptr) DPIPE_RETURN_IF_ERROR(cache->store_->Commit());
  return cache;
}

std::string FrozenCache::KeyPrefix(int component) const {
  if (store_ == nullptr) return absl::StrCat(component, " ");
  return absl::StrCat(component, " ", FingerprintOf(*pipeline_, component), " ",
                      DTypeName(compute_dtype_), " ");
}

absl::Status FrozenCache::ListEntries(const Request& request) {
  AddCaption("");  // replaces dropped captions
  DPIPE_RETURN_IF_ERROR(ListStep(request, request.profiled_step));
  for (int64_t step = request.first_step; step < request.first_step + request.num_steps; ++step) {
    DPIPE_RETURN_IF_ERROR(ListStep(request, step));
    if (static_cast<int32_t>(images_.size()) == request.loader->dataset().size()) break;
  }
  return absl::OkStatus();
}

absl::Status FrozenCache::ListStep(const Request& request, int64_t step) {
  DataLoader& loader = *request.loader;
  const ImageSize size = loader.SizeOf(step);
  if (encoders_.count({size.width, size.height}) == 0) {
    DPIPE_ASSIGN_OR_RETURN(nn::Program encoder, pipeline_->parts().MakeVaeEncoder(size));
    encoders_.emplace(std::make_pair(size.width, size.height), std::move(encoder));
  }
  const SampleRange batch{0, loader.options().global_batch};
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, loader.Indices(step, batch));
  for (int i = 0; i < batch.size(); ++i) {
    if (images_.count(indices[i]) > 0) continue;
    DPIPE_ASSIGN_OR_RETURN(const std::string identity, loader.dataset().LoadIdentity(indices[i]));
    images_[indices[i]] = {
        step, i, size,
        absl::StrCat(image_prefix_, size.width, "x", size.height, " centre ", identity)};
    DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> captions,
                           loader.dataset().LoadCaptions(indices[i]));
    for (const std::string& caption : captions) AddCaption(caption);
  }
  return absl::OkStatus();
}

void FrozenCache::AddCaption(const std::string& caption) {
  for (size_t e = 0; e < captions_.size(); ++e) {
    const std::vector<int32_t> ids = pipeline_->parts().text_encoders[e].tokenizer->Encode(caption);
    captions_[e][ids] = absl::StrCat(caption_prefixes_[e], absl::StrJoin(ids, ","));
  }
}

const nn::Program& FrozenCache::Encoder(ImageSize size) const {
  return encoders_.at({size.width, size.height});
}

std::vector<std::vector<int32_t>> FrozenCache::ImageGroups(int quantum) const {
  std::map<std::pair<int, int>, std::vector<int32_t>> filling;  // by width and height
  std::vector<std::vector<int32_t>> groups;
  for (const auto& [index, place] : images_) {
    std::vector<int32_t>& group = filling[{place.size.width, place.size.height}];
    group.push_back(index);
    if (static_cast<int>(group.size()) == quantum) groups.push_back(std::exchange(group, {}));
  }
  for (auto& [size, group] : filling) {
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<FrozenCache::TextGroup> FrozenCache::TextGroups(int quantum) const {
  std::vector<TextGroup> groups;
  for (size_t e = 0; e < captions_.size(); ++e) {
    bool is_full = true;
    for (const auto& [ids, key] : captions_[e]) {
      if (is_full) groups.push_back({static_cast<int>(e), {}});
      groups.back().texts.push_back(ids);
      is_full = static_cast<int>(groups.back().texts.size()) == quantum;
    }
  }
  return groups;
}

absl::Status FrozenCache::Compute(const Request& request, const std::vector<DeviceWorker*>& workers,
                                  const std::function<void(double)>& on_progress) {
  const std::vector<std::vector<int32_t>> images = ImageGroups(request.quantum);
  const std::vector<TextGroup> captions = TextGroups(request.quantum);
  const size_t total = images.size() + captions.size();
  std::atomic<size_t> next{0};
  std::vector<std::unique_ptr<nn::Inference>> encoders;  // by component
  for (size_t c = 0; c < kFirstTextEncoder + captions_.size(); ++c) {
    encoders.push_back(std::make_unique<nn::Inference>(pipeline_->frozen_parameters()[c]));
  }
  DPIPE_ASSIGN_OR_RETURN(const PassWorkers chosen,
                         PassWorkers::Choose(workers, DeviceBytes(request.quantum)));
  const auto statuses = RunOnAll(chosen.workers(), [&](int worker) -> absl::Status {
    const std::shared_ptr<Device>& device = chosen.workers()[worker]->device();
    for (size_t i = next++; i < total; i = next++) {
      if (request.should_stop && request.should_stop()) return absl::CancelledError("stopped");
      if (i < images.size()) {
        DPIPE_RETURN_IF_ERROR(MakeImages(request, images[i], encoders[kVaeEncoder].get(), device));
      } else {
        const TextGroup& group = captions[i - images.size()];
        nn::Inference* passes = encoders[kFirstTextEncoder + group.encoder].get();
        DPIPE_RETURN_IF_ERROR(MakeCaptions(request, group, passes, device));
      }
      if (worker == 0 && on_progress) on_progress(static_cast<double>(i + 1) / total);
    }
    return absl::OkStatus();
  });
  return FirstError(statuses);
}

std::vector<ValueId> FrozenCache::KeptValues() const {
  return pipeline_->model().component(kVaeEncoder).program.LiveAt(first_noisy_layer_);
}

int64_t FrozenCache::DeviceBytes(int quantum) const {
  int64_t largest = 0;
  for (const auto& [size, program] : encoders_) {
    largest = std::max(
        largest, nn::InferenceBytes(program, {0, first_noisy_layer_}, quantum, compute_dtype_));
  }
  for (size_t e = 0; e < captions_.size(); ++e) {
    const nn::Program& program = TextEncoderProgram(static_cast<int>(e));
    largest += nn::InferenceBytes(program, program.all_layers(), quantum, compute_dtype_);
  }
  return largest;
}

absl::Status FrozenCache::MakeImages(const Request& request, const std::vector<int32_t>& indices,
                                     nn::Inference* passes, const std::shared_ptr<Device>& device) {
  std::vector<const ImagePlace*> places;
  for (const int32_t index : indices) {
    const ImagePlace& place = images_.at(index);
    if (!InStore(place.key, KeptValues().size())) places.push_back(&place);
  }
  if (places.empty()) return absl::OkStatus();
  const nn::Program& program = Encoder(places[0]->size);
  const ValueId input = program.InputNamed("pixels");
  nn::ValueMap values;
  values[input] =
      Tensor::Empty(HostDeviceFor(device), program.BatchShape(input, request.quantum), DType::kF32);
  for (int i = 0; i < request.quantum; ++i) {
    const ImagePlace& place = *places[std::min<size_t>(i, places.size() - 1)];
    DPIPE_RETURN_IF_ERROR(request.loader->LoadPixels(place.step, {place.sample, place.sample + 1},
                                                     values[input].Slice(i, i + 1).data<float>()));
  }
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  DPIPE_RETURN_IF_ERROR(
      passes->Forward(program, {0, first_noisy_layer_}, device, options, &values));
  for (size_t i = 0; i < places.size(); ++i) {
    std::vector<Tensor> kept;
    for (const ValueId id : KeptValues()) kept.push_back(values[id].Slice(i, i + 1));
    DPIPE_RETURN_IF_ERROR(Keep(places[i]->key, kept));
  }
  return absl::OkStatus();
}

absl::Status FrozenCache::MakeCaptions(const Request& request, const TextGroup& group,
                                       nn::Inference* passes,
                                       const std::shared_ptr<Device>& device) {
  const nn::Program& program = TextEncoderProgram(group.encoder);
  const std::map<std::vector<int32_t>, std::string>& keys = captions_[group.encoder];
  std::vector<const std::vector<int32_t>*> missing;
  for (const std::vector<int32_t>& ids : group.texts) {
    if (!InStore(keys.at(ids), program.outputs().size())) missing.push_back(&ids);
  }
  if (missing.empty()) return absl::OkStatus();
  const ValueId input = program.InputNamed("ids");
  std::vector<int32_t> rows;
  for (int i = 0; i < request.quantum; ++i) {
    const std::vector<int32_t>& ids = *missing[std::min<size_t>(i, missing.size() - 1)];
    rows.insert(rows.end(), ids.begin(), ids.end());
  }
  nn::ValueMap values;
  values[input] = Tensor::FromHost<int32_t>(HostDeviceFor(device),
                                            program.BatchShape(input, request.quantum), rows);
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  DPIPE_RETURN_IF_ERROR(passes->Forward(program, program.all_layers(), device, options, &values));
  for (size_t i = 0; i < missing.size(); ++i) {
    std::vector<Tensor> outputs;
    for (const ValueId id : program.outputs()) outputs.push_back(values[id].Slice(i, i + 1));
    DPIPE_RETURN_IF_ERROR(Keep(keys.at(*missing[i]), outputs));
  }
  return absl::OkStatus();
}

bool FrozenCache::InStore(const std::string& key, size_t count) {
  if (store_ == nullptr) return false;
  const auto bytes = store_->Find(key);
  if (!bytes.has_value() || Unpack(*bytes, Device::Cpu()).size() != count) return false;
  absl::MutexLock lock(&mutex_);
  size_bytes_ += static_cast<int64_t>(bytes->size());
  return true;
}

absl::Status FrozenCache::Keep(const std::string& key, const std::vector<Tensor>& tensors) {
  const std::string packed = store_ == nullptr ? "" : Pack(tensors);
  if (store_ != nullptr) DPIPE_RETURN_IF_ERROR(store_->Add(key, packed));
  absl::MutexLock lock(&mutex_);
  ++num_computed_;
  if (store_ != nullptr) {
    size_bytes_ += static_cast<int64_t>(packed.size());
    return absl::OkStatus();
  }
  for (const Tensor& tensor : tensors) size_bytes_ += tensor.size_bytes();
  memory_[key] = tensors;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> FrozenCache::Entry(
    const std::string& key, const std::shared_ptr<Device>& device) const {
  if (store_ == nullptr) return memory_.at(key);
  const auto bytes = store_->Find(key);
  if (bytes.has_value()) return Unpack(*bytes, device);
  return absl::DataLossError(
      absl::StrCat("the offline cache's entry \"", key, "\" was damaged after it was opened"));
}

absl::StatusOr<Tensor> FrozenCache::Latents(const std::vector<int32_t>& indices,
                                            const Tensor& noise) const {
  const std::vector<ValueId> ids = KeptValues();
  const Tensor here = noise.ToHost();
  std::vector<Tensor> latents;
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto place = images_.find(indices[i]);
    if (place == images_.end()) {
      return absl::NotFoundError(absl::StrCat(
          "image ", indices[i], " is not in the offline cache of ", images_.size(), " images"));
    }
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> kept, Entry(place->second.key, here.device()));
    const nn::Program& program = Encoder(place->second.size);
    nn::ValueMap values;
    for (size_t k = 0; k < ids.size(); ++k) values[ids[k]] = kept[k];
    values[program.InputNamed("vae_noise")] = here.Slice(i, i + 1);
    DPIPE_RETURN_IF_ERROR(nn::Forward(program, {first_noisy_layer_, program.num_layers()},
                                      *pipeline_->frozen_parameters()[kVaeEncoder], options,
                                      &values,
                                      /*state=*/nullptr));
    latents.push_back(values[program.OutputNamed("latents")]);
  }
  return ToDevice(ConcatBatch(latents), noise.device());
}

absl::StatusOr<Tensor> FrozenCache::Embeddings(int encoder, const std::string& output,
                                               const std::vector<std::string>& captions,
                                               const std::shared_ptr<Device>& device) const {
  const Tokenizer& tokenizer = *pipeline_->parts().text_encoders[encoder].tokenizer;
  const nn::Program& program = TextEncoderProgram(encoder);
  const auto& outputs = program.outputs();
  const size_t number =
      std::find(outputs.begin(), outputs.end(), program.OutputNamed(output)) - outputs.begin();
  std::vector<Tensor> rows;
  for (const std::string& caption : captions) {
    const auto key = captions_[encoder].find(tokenizer.Encode(caption));
    if (key == captions_[encoder].end()) {
      return absl::NotFoundError(absl::StrCat("a caption is not in the offline cache of ",
                                              captions_[encoder].size(), " captions"));
    }
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> row,
                           Entry(key->second, HostDeviceFor(device)));
    rows.push_back(row[number]);
  }
  return ToDevice(ConcatBatch(rows), device);
}

}  // namespace dpipe::models
