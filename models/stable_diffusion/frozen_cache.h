// What the frozen components give for every image and caption, computed once: the offline cache
// that users know as precomputed latents and text embeddings.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_FROZEN_CACHE_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_FROZEN_CACHE_H_

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
#include "models/stable_diffusion/stable_diffusion.h"

namespace dpipe::models {

// An image's entry is what its VAE encoder computes before the noise is drawn, so that each step
// still draws its own latents: the same numbers as without a cache, bit for bit, where as many
// samples are computed together. A caption's entry is its embedding. Pictures must come out of the
// loader the same every time: no random crop, no random flip. Immutable after Build, so any number
// of threads may read it.
//
// Entries are in memory, or, with a cache folder, in a CacheStore: mapped from disk, and found
// there by a later run. Their keys have the component's config and weights, the compute dtype, and
// the picture's identity (SampleSource::LoadIdentity) and size, or the caption's tokens: what a
// changed picture or another model invalidates is that picture's entry, or that model's. The
// numbers are those of the machine that computed them, and of its quantum; another processor's
// kernels, or those for another number of samples, may round otherwise.
class FrozenCache {
 public:
  struct Request {
    const StableDiffusion* model = nullptr;
    DataLoader* loader = nullptr;
    int64_t first_step = 0;
    int64_t num_steps = 0;      // the samples of these steps are what is cached
    int64_t profiled_step = 0;  // and those of this one
    int quantum = 1;            // entries that are computed together
    DType compute_dtype = DType::kF32;
    std::string cache_folder;  // empty: in memory
  };
  // Spreads the work over the workers, or over the CPU's cores where GPUs have no room.
  // FailedPrecondition where the loader crops or flips at random; errors of CacheStore.
  static absl::StatusOr<std::unique_ptr<FrozenCache>> Build(
      const Request& request, const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress = nullptr);

  // The latents of data set samples, each with its own noise [n, h, w, c]; their layers run on the
  // calling thread. NotFound for a sample that is not in the cache.
  absl::StatusOr<Tensor> Latents(const std::vector<int32_t>& indices, const Tensor& noise) const;
  // The embeddings of token lists.
  absl::StatusOr<Tensor> Context(const std::vector<std::vector<int32_t>>& ids,
                                 const std::shared_ptr<Device>& device) const;

  int num_images() const { return static_cast<int>(images_.size()); }
  int num_captions() const { return static_cast<int>(captions_.size()); }
  // Entries that were computed, and not found in the cache folder.
  int num_computed() const { return num_computed_; }
  // See CacheStore.
  int64_t num_damaged() const { return store_ == nullptr ? 0 : store_->num_damaged(); }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  FrozenCache() = default;
  // What every key of a component begins with.
  std::string KeyPrefix(int component) const;
  absl::Status ListEntries(const Request& request);
  absl::Status ListStep(const Request& request, int64_t step);
  void AddCaption(const std::string& caption);
  absl::Status Compute(const Request& request, const std::vector<DeviceWorker*>& workers,
                       const std::function<void(double)>& on_progress);
  // Of a device that computes entries.
  int64_t DeviceBytes(int quantum) const;
  // Indices of images to be computed together, of one size each.
  std::vector<std::vector<int32_t>> ImageGroups(int quantum) const;
  // Computes those of a group's entries that the store has not: up to a quantum of them at once,
  // the last one again where there are fewer.
  absl::Status MakeImages(const Request& request, const std::vector<int32_t>& indices,
                          nn::Inference* passes, const std::shared_ptr<Device>& device);
  absl::Status MakeCaptions(const Request& request, const std::vector<std::vector<int32_t>>& texts,
                            nn::Inference* passes, const std::shared_ptr<Device>& device);
  // Whether the store has a sound entry of `count` tensors.
  bool InStore(const std::string& key, size_t count);
  absl::Status Keep(const std::string& key, const std::vector<Tensor>& tensors);
  // DataLoss for an entry that was damaged after Build.
  absl::StatusOr<std::vector<Tensor>> Entry(const std::string& key,
                                            const std::shared_ptr<Device>& device) const;
  std::vector<ValueId> KeptValues() const;
  // The VAE encoder for pictures of a size that some entry has.
  const nn::Program& Encoder(ImageSize size) const;

  const StableDiffusion* model_ = nullptr;
  DType compute_dtype_ = DType::kF32;
  int first_noisy_layer_ = 0;  // of the VAE encoder: the first that reads the noise
  absl::Mutex mutex_;          // while building
  // Where a sample is in the loader, and its entry's key.
  struct ImagePlace {
    int64_t step;
    int sample;
    ImageSize size;
    std::string key;
  };
  std::map<std::pair<int, int>, nn::Program> encoders_;  // by width and height
  std::string image_prefix_, caption_prefix_;
  std::map<int32_t, ImagePlace> images_;                  // by index in the data set
  std::map<std::vector<int32_t>, std::string> captions_;  // keys by tokens
  std::unique_ptr<CacheStore> store_;                     // null: in memory
  std::map<std::string, std::vector<Tensor>> memory_;     // by key
  int num_computed_ = 0;
  int64_t size_bytes_ = 0;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_FROZEN_CACHE_H_
