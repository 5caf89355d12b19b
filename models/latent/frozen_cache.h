// The offline cache: outputs of the frozen components for every image and caption, computed once.
// Users know it as precomputed latents and text embeddings.
#ifndef DPIPE_MODELS_LATENT_FROZEN_CACHE_H_
#define DPIPE_MODELS_LATENT_FROZEN_CACHE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/nn/inference.h"
#include "core/tensor/device_worker.h"
#include "core/tensor/tensor.h"
#include "data/cache_store.h"
#include "data/loader.h"
#include "models/latent/latent_pipeline.h"

namespace dpipe::models {

// An image's entry holds the VAE encoder's values before its noise is drawn, so that each step
// still draws its own latents. They equal those without a cache, bit for bit, if as many samples
// are computed together. A caption has an entry per text encoder, with that
// encoder's outputs. The loader must return the same picture every time: no random crop, random
// flip or patches. Immutable after Build, and thread-safe.
//
// Entries are in memory or, with a cache folder, in a CacheStore: mapped from disk and reused by
// later runs. A key consists of the component's configuration and weights, the compute dtype, and
// either the picture's identity (SampleSource::LoadIdentity) and size or the caption's tokens. So a
// changed picture invalidates its own entry, and another model uses other entries.
//
// Entries depend on the machine that computed them and on the quantum: kernels of another
// processor, or for another number of samples, may round differently.
class FrozenCache {
 public:
  struct Request {
    const LatentPipeline* pipeline = nullptr;
    DataLoader* loader = nullptr;
    int64_t first_step = 0;
    int64_t num_steps = 0;      // the samples of these steps are cached
    int64_t profiled_step = 0;  // and those of this one
    int quantum = 1;            // number of entries computed together
    DType compute_dtype = DType::kF32;
    std::string cache_folder;           // empty keeps entries in memory
    std::function<bool()> should_stop;  // see CacheRequest
  };
  // Spreads the work over the workers, or over the CPU's cores if GPUs have too little memory.
  // Returns FailedPrecondition if the loader crops or flips at random or loads patches, and errors
  // of CacheStore.
  static absl::StatusOr<std::unique_ptr<FrozenCache>> Build(
      const Request& request, const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress = nullptr);

  // Returns the latents of data set samples, each with its own noise [n, h, w, c]. The layers from
  // the first that reads the noise run on the calling thread. Returns NotFound if a sample is not
  // in the cache.
  absl::StatusOr<Tensor> Latents(const std::vector<int32_t>& indices, const Tensor& noise) const;
  // Returns an output of text encoder number `encoder` for captions. Returns NotFound if one is not
  // in the cache.
  absl::StatusOr<Tensor> Embeddings(int encoder, const std::string& output,
                                    const std::vector<std::string>& captions,
                                    const std::shared_ptr<Device>& device) const;

  int num_images() const { return static_cast<int>(images_.size()); }
  int num_captions() const { return captions_.empty() ? 0 : static_cast<int>(captions_[0].size()); }
  // Entries that were computed because they were not in the cache folder.
  int num_computed() const { return num_computed_; }
  // See CacheStore.
  int64_t num_damaged() const { return store_ == nullptr ? 0 : store_->num_damaged(); }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  FrozenCache() = default;
  // Returns the beginning of every key of a component.
  std::string KeyPrefix(int component) const;
  absl::Status ListEntries(const Request& request);
  absl::Status ListStep(const Request& request, int64_t step);
  void AddCaption(const std::string& caption);
  absl::Status Compute(const Request& request, const std::vector<DeviceWorker*>& workers,
                       const std::function<void(double)>& on_progress);
  // Returns the memory that a device needs to compute entries.
  int64_t DeviceBytes(int quantum) const;
  // Returns groups of images to compute together, by index; each group has one size.
  std::vector<std::vector<int32_t>> ImageGroups(int quantum) const;
  // Computes the group's entries that are not in the store, up to a quantum of them at once. If
  // there are fewer, repeats the last one to fill the quantum.
  absl::Status MakeImages(const Request& request, const std::vector<int32_t>& indices,
                          nn::Inference* passes, const std::shared_ptr<Device>& device);
  // Token lists of text encoder number `encoder` that are computed together.
  struct TextGroup {
    int encoder = 0;
    std::vector<std::vector<int32_t>> texts;
  };
  std::vector<TextGroup> TextGroups(int quantum) const;
  absl::Status MakeCaptions(const Request& request, const TextGroup& group, nn::Inference* passes,
                            const std::shared_ptr<Device>& device);
  // True if the store has a valid entry of `count` tensors.
  bool InStore(const std::string& key, size_t count);
  absl::Status Keep(const std::string& key, const std::vector<Tensor>& tensors);
  // Returns DataLoss if the entry was damaged after Build.
  absl::StatusOr<std::vector<Tensor>> Entry(const std::string& key,
                                            const std::shared_ptr<Device>& device) const;
  std::vector<ValueId> KeptValues() const;
  // Returns the VAE encoder for a picture size that some entry has.
  const nn::Program& Encoder(ImageSize size) const;
  const nn::Program& TextEncoderProgram(int encoder) const {
    return pipeline_->model().component(kFirstTextEncoder + encoder).program;
  }

  const LatentPipeline* pipeline_ = nullptr;
  DType compute_dtype_ = DType::kF32;
  int first_noisy_layer_ = 0;  // first layer of the VAE encoder that reads the noise
  absl::Mutex mutex_;          // used while building
  // Position of a sample in the loader, and its entry's key.
  struct ImagePlace {
    int64_t step;
    int sample;
    ImageSize size;
    std::string key;
  };
  std::map<std::pair<int, int>, nn::Program> encoders_;  // by width and height
  std::string image_prefix_;
  std::vector<std::string> caption_prefixes_;  // by text encoder
  std::map<int32_t, ImagePlace> images_;       // by index in the data set
  // By text encoder: keys by tokens.
  std::vector<std::map<std::vector<int32_t>, std::string>> captions_;
  std::unique_ptr<CacheStore> store_;                  // null: in memory
  std::map<std::string, std::vector<Tensor>> memory_;  // by key
  int num_computed_ = 0;
  int64_t size_bytes_ = 0;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_FROZEN_CACHE_H_
