// A model small enough to train thousands of times in a test. It has every difficulty of
// pipelining: a skip that spans the whole backbone, an embedding read by every block, frozen
// components that feed the backbone, and random inputs read at both ends.
#ifndef DPIPE_TESTS_TESTLIB_TOY_MODEL_H_
#define DPIPE_TESTS_TESTLIB_TOY_MODEL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/runtime/input_provider.h"

namespace dpipe::testlib {

struct ToyModelOptions {
  int width = 16;
  int num_blocks = 6;         // of the backbone; each has three layers
  int num_frozen_layers = 4;  // of each frozen component
  bool frozen_skip = false;   // a frozen component's last layer also reads its input
  bool u_shaped = false;      // block num_blocks - 1 - i also reads the output of block i
  bool second_backbone = false;
  bool self_conditioning = false;  // of the first backbone
  // If positive, trains only adapters of this rank in the blocks, and the backbones' last layers.
  int lora_rank = 0;
};

// Makes a model with the components "encoder" (pixels -> code), "text" (words -> context) and
// "backbone" (code, context, noise -> loss), in this order. A second backbone, "upscaler" (lowres,
// context, noise -> loss), comes last.
nn::Model MakeToyModel(const ToyModelOptions& options = {});

// Frozen parameters by component (null for backbones), and the backbones' initial parameters by
// name.
struct ToyParameters {
  std::vector<std::unique_ptr<nn::ParameterSet>> frozen;
  std::vector<const nn::ParameterSet*> frozen_pointers;
  std::map<std::string, Tensor> backbone;
};
ToyParameters MakeToyParameters(const nn::Model& model, uint64_t seed);

// Draws every input by (seed, step, sample).
class ToyInputs : public InputProvider {
 public:
  ToyInputs(const nn::Model* model, uint64_t seed, DType compute_dtype)
      : model_(model), seed_(seed), compute_dtype_(compute_dtype) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

 private:
  const nn::Model* const model_;
  const uint64_t seed_;
  const DType compute_dtype_;
};

// ToyInputs plus the frozen components' outputs, computed sample by sample, as from an offline
// cache.
class CachedToyInputs : public InputProvider {
 public:
  CachedToyInputs(const nn::Model* model, const ToyParameters* parameters, uint64_t seed,
                  DType compute_dtype)
      : model_(model),
        parameters_(parameters),
        inputs_(model, seed, compute_dtype),
        compute_dtype_(compute_dtype) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

 private:
  absl::StatusOr<Tensor> Compute(int component, const std::string& output, int64_t step, int sample,
                                 const std::shared_ptr<Device>& device);

  const nn::Model* const model_;
  const ToyParameters* const parameters_;
  ToyInputs inputs_;
  const DType compute_dtype_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_TOY_MODEL_H_
