#include "core/cost/roofline/guided_unet.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/cost/roofline/blocks.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kNumLabels = 1000;

enum class Resample { kNone, kDown, kUp };

class GuidedUNetBuilder {
 public:
  GuidedUNetBuilder(const GuidedUNetOptions& options, ComponentBuilder* builder)
      : options_(options), builder_(*builder) {}

  Value Build(const Value& x, const Value& timesteps, const std::optional<Value>& label) {
    AddTime(timesteps, label);
    builder_.BeginLayer("conv_in", TRAINABLE);
    Value h = builder_.Conv(x, options_.channels);
    skips_ = {h};
    const int levels = static_cast<int>(options_.multipliers.size());
    for (int level = 0; level < levels; ++level) h = AddDown(level, levels, h);
    h = AddResidual("middle.0", h, h.channels(), Resample::kNone);
    h = AddSelfAttention("middle.1", h);
    h = AddResidual("middle.2", h, h.channels(), Resample::kNone);
    for (int level = levels - 1; level >= 0; --level) h = AddUp(level, h);
    DPIPE_CHECK(skips_.empty());
    builder_.BeginLayer("conv_out", TRAINABLE);
    return builder_.Conv(builder_.GroupNorm(h), 6);
  }

 private:
  void AddTime(const Value& timesteps, const std::optional<Value>& label) {
    const int64_t width = 4 * options_.channels;
    builder_.BeginLayer("time_embedding", TRAINABLE);
    Value t = builder_.Elementwise({timesteps}, {options_.channels}, 2);
    t = builder_.Linear(builder_.Activation(builder_.Linear(t, width)), width);
    if (label.has_value()) {
      t = builder_.Add(t, builder_.Embedding(*label, kNumLabels, 0, width));
    }
    time_ = builder_.Activation(t);
  }

  Value AddDown(int level, int levels, Value h) {
    const int64_t out = options_.channels * options_.multipliers[level];
    for (int i = 0; i < options_.resnets_per_level; ++i) {
      const std::string name = absl::StrCat("down.", level, ".", i);
      h = AddResidual(name, h, out, Resample::kNone);
      if (h.dims[0] <= options_.attention_size) h = AddSelfAttention(name + ".attention", h);
      skips_.push_back(h);
    }
    if (level + 1 == levels) return h;
    h = AddResidual(absl::StrCat("down.", level, ".resample"), h, out, Resample::kDown);
    skips_.push_back(h);
    return h;
  }

  Value AddUp(int level, Value h) {
    const int64_t out = options_.channels * options_.multipliers[level];
    for (int i = 0; i <= options_.resnets_per_level; ++i) {
      const std::string name = absl::StrCat("up.", level, ".", i);
      const Value skip = skips_.back();
      skips_.pop_back();
      h = AddResidual(name, h, out, Resample::kNone, &skip);
      if (h.dims[0] <= options_.attention_size) h = AddSelfAttention(name + ".attention", h);
    }
    if (level == 0) return h;
    return AddResidual(absl::StrCat("up.", level, ".resample"), h, out, Resample::kUp);
  }

  Value Resampled(const Value& x, Resample resample) {
    if (resample == Resample::kDown) return builder_.AveragePool2x(x);
    if (resample == Resample::kUp) return builder_.Upsample2x(x);
    return x;
  }

  Value AddResidual(const std::string& name, Value x, int64_t out, Resample resample,
                    const Value* skip = nullptr) {
    builder_.BeginLayer(name + ".conv1", TRAINABLE);
    if (skip != nullptr) x = builder_.Concat(x, *skip);
    Value h = builder_.Conv(Resampled(builder_.GroupNorm(x), resample), out);
    Value shortcut = Resampled(x, resample);
    if (x.channels() != out) {
      builder_.BeginLayer(name + ".conv_shortcut", TRAINABLE);
      shortcut = builder_.Conv(shortcut, out, /*kernel=*/1);
    }
    builder_.BeginLayer(name + ".conv2", TRAINABLE);
    const Value scale_shift = builder_.Linear(time_, 2 * out);
    h = builder_.Modulate(builder_.GroupNorm(h), scale_shift, /*shift=*/true);
    h = builder_.Activation(h);
    return builder_.Add(builder_.Conv(h, out), shortcut);
  }

  Value AddSelfAttention(const std::string& name, const Value& x) {
    builder_.BeginLayer(name, TRAINABLE);
    const Value h = builder_.GroupNorm(x);
    return builder_.Add(AddAttention(&builder_, h, h, /*qkv_bias=*/true), x);
  }

  const GuidedUNetOptions& options_;
  ComponentBuilder& builder_;
  Value time_;
  std::vector<Value> skips_;
};

}  // namespace

ComponentWork GuidedUNet(const GuidedUNetOptions& options) {
  ComponentBuilder builder(options.name, /*is_backbone=*/true);
  const std::vector<int64_t> image{options.image_size, options.image_size, 3};
  const Value pixels = builder.Input("pixels", image, 4);
  const Value noise = builder.Input("noise", image, 4);
  const Value timesteps = builder.Input("timesteps", {}, 4);
  std::vector<Value> inputs{pixels, noise, timesteps};
  if (options.conditioned) inputs.push_back(builder.Input("low_resolution", image, 4));
  std::optional<Value> label;
  if (options.class_labels) label = builder.Input("label", {}, 4);
  builder.BeginLayer("add_noise", FROZEN);
  const int64_t channels = options.conditioned ? 6 : 3;
  const Value noisy =
      builder.Elementwise(inputs, {options.image_size, options.image_size, channels}, 2);
  const Value prediction = GuidedUNetBuilder(options, &builder).Build(noisy, timesteps, label);
  builder.BeginLayer("loss", TRAINABLE);
  builder.MarkOutput(builder.Loss(prediction, {pixels, noise, timesteps}), "loss", 4);
  return builder.Build();
}

}  // namespace dpipe::roofline
