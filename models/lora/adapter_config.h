// PEFT's configuration of low-rank adapters: how much each counts. It is the file
// adapter_config.json beside adapter_model.safetensors, or, each key after "unet." or
// "text_encoder.", the metadata "lora_adapter_metadata" of diffusers' files.
//
//   {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": false,
//    "rank_pattern": {"attn2.to_k": 4}, "alpha_pattern": {"^mid_block.*": 32}, ...}
//
// A layer's adapter B A counts alpha / r times, with use_rslora alpha / sqrt(r) times. The first
// pattern that matches a layer says its r or alpha. A pattern is a regular expression that matches
// the layer's name or the end of it behind a dot. Source: peft utils/other.py, get_pattern_key;
// tuners/lora/layer.py, update_layer.
#ifndef DPIPE_MODELS_LORA_ADAPTER_CONFIG_H_
#define DPIPE_MODELS_LORA_ADAPTER_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::models {

// A pattern of PEFT for names of layers. Immutable.
class LayerPattern {
 public:
  // InvalidArgument if `text` is no regular expression, or one of the kinds whose matching could
  // take unbounded time or memory: longer than 200 characters, with counted repetitions,
  // back-references or look-around.
  static absl::StatusOr<LayerPattern> Create(const std::string& text);

  bool Matches(absl::string_view layer) const;
  // True if it is a name, in which a dot is any character: compared without a regular expression.
  bool is_plain() const { return compiled_ == nullptr; }

 private:
  struct Compiled;

  std::string plain_;   // without ^ and $
  bool whole_ = false;  // began with ^
  std::shared_ptr<const Compiled> compiled_;
};

// Immutable. One that was not parsed says nothing: all adapters count once.
class AdapterConfig {
 public:
  // `text` is JSON; keys are looked up after `prefix`, then without it. InvalidArgument names
  // `source` and the key for what is asked for and changes the result, but is not supported: DoRA,
  // biases, whole modules, other methods than LoRA, initialisations that change the base weights.
  static absl::StatusOr<AdapterConfig> Parse(const std::string& text, const std::string& prefix,
                                             const std::string& source);

  bool says_scale() const { return rank_ > 0; }
  // How often the adapter of `layer`, by its name in the model that was trained, of this rank
  // counts. InvalidArgument if its rank is another one.
  absl::StatusOr<double> ScaleOf(absl::string_view layer, int64_t rank) const;

 private:
  template <typename Number>
  using Patterns = std::vector<std::pair<LayerPattern, Number>>;

  std::string source_;
  int64_t rank_ = 0;  // 0: says nothing
  double alpha_ = 0;
  bool rank_stabilized_ = false;
  Patterns<int64_t> rank_patterns_;
  Patterns<double> alpha_patterns_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_ADAPTER_CONFIG_H_
