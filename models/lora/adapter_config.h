// PEFT's configuration of low-rank adapters, which determines their scales. It is the file
// adapter_config.json beside adapter_model.safetensors. In diffusers' files it is the metadata
// "lora_adapter_metadata", with each key after "unet." or "text_encoder.".
//
//   {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": false,
//    "rank_pattern": {"attn2.to_k": 4}, "alpha_pattern": {"^mid_block.*": 32}, ...}
//
// A layer's adapter B A has the scale alpha / r, or alpha / sqrt(r) with use_rslora. The first
// pattern that matches a layer sets its r or alpha. A pattern is a regular expression that matches
// the layer's name or its end after a dot. Source: peft utils/other.py, get_pattern_key;
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

// PEFT's pattern for names of layers. Immutable.
class LayerPattern {
 public:
  // Returns InvalidArgument if `text` is not a regular expression, or if matching it could take
  // unbounded time or memory: more than 200 characters, counted repetitions, back-references or
  // look-around.
  static absl::StatusOr<LayerPattern> Create(const std::string& text);

  bool Matches(absl::string_view layer) const;
  // True if the pattern is a plain name, in which a dot matches any character. It is compared
  // without a regular expression.
  bool is_plain() const { return compiled_ == nullptr; }

 private:
  struct Compiled;

  std::string plain_;   // without ^ and $
  bool whole_ = false;  // began with ^
  std::shared_ptr<const Compiled> compiled_;
};

// Immutable. A default-constructed one sets no scale, so all adapters have a scale of 1.
class AdapterConfig {
 public:
  // Parses JSON; keys are looked up after `prefix`, then without it. Returns InvalidArgument with
  // `source` and the key if a setting changes the result and is not supported: DoRA, biases, whole
  // modules, methods other than LoRA, initialisations that change the base weights.
  static absl::StatusOr<AdapterConfig> Parse(const std::string& text, const std::string& prefix,
                                             const std::string& source);

  bool has_scale() const { return rank_ > 0; }
  // Returns the scale of the adapter of `layer`, named as in the model that was trained. Returns
  // InvalidArgument if the configuration gives a rank other than `rank`.
  absl::StatusOr<double> ScaleOf(absl::string_view layer, int64_t rank) const;

 private:
  template <typename Number>
  using Patterns = std::vector<std::pair<LayerPattern, Number>>;

  std::string source_;
  int64_t rank_ = 0;  // 0: sets no scale
  double alpha_ = 0;
  bool rank_stabilized_ = false;
  Patterns<int64_t> rank_patterns_;
  Patterns<double> alpha_patterns_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_ADAPTER_CONFIG_H_
