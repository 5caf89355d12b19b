// Reads and writes a component's weights: safetensors files in diffusers' layout.
#ifndef DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
#define DPIPE_MODELS_WEIGHTS_WEIGHTS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/parameter_source.h"
#include "core/nn/parameters.h"
#include "core/nn/program.h"
#include "core/tensor/safetensors.h"
#include "core/tensor/safetensors_prefix.h"
#include "core/tensor/tensor.h"
#include "models/weights/weight_files.h"

namespace dpipe::models {

// Keyed by parameter name.
using NamedTensors = std::map<std::string, Tensor>;

// Returns a program's parameters by their init rules. Allocates on demand, without gradients and
// copies, because those of a full-size U-Net take 3.5 GB each.
NamedTensors RandomParameters(const nn::Program& program, uint64_t seed);

// Returns the masters of a set by name; they share its storage.
NamedTensors SharedMasters(const nn::ParameterSet& parameters);

struct LoadWeightsOptions {
  // Ignores tensors whose names begin with these, such as a VAE's "decoder." if only the encoder is
  // needed.
  std::vector<std::string> ignored_prefixes;
};

// A component's weights on the disk: mapped files, of which each parameter's bytes are read when it
// is. Thread-safe.
//
// - Reads fp32, fp16, bf16 and fp8 (E4M3, without scales, as FLUX.1 is published).
// - Accepts older names: a VAE's attention query, key, value and proj_attn; a text encoder's
//   without "text_model.". Ignores a text encoder's integer position_ids.
// - A linear layer's weight [out, in] may be stored as the [out, in, 1, 1] of a 1 x 1 convolution,
//   and vice versa: transformers' projections and a VAE's attention exist in both forms.
//
class WeightReader : public nn::ParameterSource {
 public:
  // Opens the weights of `programs` (of one component; a VAE has two). `path` is a file, a shard
  // index, or a folder with either; see weight_files.h.
  //
  // Returns InvalidArgument if
  // - parameters are missing, tensors are surplus, or shapes or dtypes are wrong: with the number
  //   of each and the first few names on a line;
  // - the names are those of the original layout (CompVis, Stability AI).
  // Other errors are those of OpenWeights.
  static absl::StatusOr<std::shared_ptr<const WeightReader>> Open(
      const std::string& path, const std::vector<const nn::Program*>& programs,
      const LoadWeightsOptions& options = {});
  // The same for these parameters.
  static absl::StatusOr<std::shared_ptr<const WeightReader>> OpenParameters(
      const std::string& path, const std::vector<nn::ParameterInfo>& parameters,
      const LoadWeightsOptions& options = {});

  // Returns InvalidArgument, with the first one, if a value is NaN or infinite. The file's pages
  // are released as soon as they are read.
  absl::StatusOr<Tensor> Read(const nn::ParameterInfo& parameter) const override;
  // Bytes of tensors in the files that have been read so far; twice if they were read twice.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  explicit WeightReader(WeightFiles files) : files_(std::move(files)) {}

  const WeightFiles files_;
  std::map<std::string, const SafetensorsView*> found_;  // by parameter
  mutable std::atomic<int64_t> bytes_read_{0};
};

// Returns all parameters of `programs` on `device`, as WeightReader reads them.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path,
                                         const std::vector<const nn::Program*>& programs,
                                         const std::shared_ptr<Device>& device,
                                         const LoadWeightsOptions& options = {});

// Returns InvalidArgument with both values if the weights at `path` hold a tensor `name` of another
// shape than `expected`, fp32, or with a number that differs from it by more than `tolerance`.
// Accepts weights without such a tensor.
absl::Status CheckStoredTensor(const std::string& path, const std::string& name,
                               const Tensor& expected, float tolerance);

// Returns InvalidArgument with the file and the tensor if a value is NaN or infinite.
absl::Status CheckFinite(const std::string& file, const std::string& tensor,
                         absl::Span<const float> values);

// True if tensors of a file with this dtype ("F32", ...) are read.
bool IsReadableDType(const std::string& dtype);

// Releases the mapped pages that belong to this tensor only. They are in the system's file cache or
// can be read again. Otherwise a process would count the file's size twice while it loads.
void ReleasePages(const SafetensorsView& view);

// Returns a tensor of a file as fp32. Returns InvalidArgument with its name if it is not F32, F16
// or BF16.
absl::StatusOr<Tensor> ToFp32(const SafetensorsView& view, const std::shared_ptr<Device>& device);

// Storage format of numbers. fp16 and bf16 take half the bytes and round to nearest even.
enum class StoredFormat { kFp32, kFp16, kBf16 };

// Parses "fp32", "fp16" or "bf16"; returns InvalidArgument for another name.
absl::StatusOr<StoredFormat> ParseStoredFormat(const std::string& name);

// Describes a tensor in a file of this format. Scalars are always fp32.
SafetensorsEntry EntryOf(const std::string& name, const Shape& shape, StoredFormat format);

// Writes a file of fp32, fp16 and bf16 tensors atomically: `read` returns one tensor after another,
// by its index in `entries`, as fp32.
absl::Status WriteWeightsInTurn(const std::string& path,
                                const std::vector<SafetensorsEntry>& entries,
                                const std::function<absl::StatusOr<Tensor>(size_t i)>& read);

// Writes fp32 tensors as the reference implementation of safetensors does. Scalars are always
// written as fp32. A loaded file whose names and shapes are the parameters' own is written back
// byte for byte in its own format. The file is written atomically.
absl::Status SaveWeights(const std::string& path, const NamedTensors& tensors,
                         StoredFormat format = StoredFormat::kFp32);

// Files with more bytes of tensors are divided, as diffusers and transformers do by default.
inline constexpr int64_t kMaxShardBytes = 10'000'000'000;

// Writes some of a source's parameters into a component's folder, reading one after another. `file`
// is kDiffusersWeights or kTransformersWeights. Up to `max_shard_bytes`, it is written as
// SaveWeights does. Otherwise it is divided into "<stem>-00001-of-00003.safetensors" and so on, and
// the index that OpenWeights reads is written last. A tensor is never divided.
absl::Status SaveWeightsFrom(const nn::ParameterSource& source,
                             const std::vector<nn::ParameterInfo>& parameters,
                             const std::string& folder, const std::string& file,
                             StoredFormat format = StoredFormat::kFp32,
                             int64_t max_shard_bytes = kMaxShardBytes);

// Conversions of IEEE half precision, given by its bits. Rounds to nearest even; numbers that are
// too large become infinite. NaNs keep their sign and as much of their payload as fits.
float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_WEIGHTS_WEIGHTS_H_
