#include "core/cost/roofline/mmdit.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {
namespace {

constexpr int64_t kWidth = 3072;
constexpr int64_t kHeadSize = 128;
constexpr int64_t kHidden = 4 * kWidth;
constexpr int64_t kLatentChannels = 16;
constexpr int64_t kTokenChannels = 4 * kLatentChannels;  // 2 x 2 latents
constexpr int64_t kTextWidth = 4096;
constexpr int64_t kPooledWidth = 768;
constexpr int64_t kSinusoids = 256;

struct Qkv {
  Value q, k, v;
};

class MmditBuilder {
 public:
  explicit MmditBuilder(ComponentBuilder* builder) : builder_(*builder) {}

  // img [T, 64], txt [S, 4096], pooled [768] -> the three embeddings.
  void AddEmbedders(const Value& img, const Value& txt, const Value& pooled,
                    const Value& timesteps) {
    builder_.BeginLayer("embedders", TRAINABLE);
    img_ = builder_.Linear(img, kWidth);
    txt_ = builder_.Linear(txt, kWidth);
    const Value time = Embed(builder_.Elementwise({timesteps}, {kSinusoids}, 2));
    const Value guidance = Embed(builder_.Elementwise({timesteps}, {kSinusoids}, 2));
    const Value vector = Embed(pooled);
    // SiLU of this vector begins every block's modulation, so it is computed once.
    vector_ = builder_.Activation(builder_.Add(builder_.Add(time, guidance), vector));
  }

  void AddDoubleBlock(const std::string& name) {
    builder_.BeginLayer(name + ".attn", TRAINABLE);
    const Value img_mod = builder_.Linear(vector_, 6 * kWidth);
    const Value txt_mod = builder_.Linear(vector_, 6 * kWidth);
    const Qkv img = Projections(Modulated(img_, img_mod));
    const Qkv txt = Projections(Modulated(txt_, txt_mod));
    const Value joint =
        builder_.Attention(builder_.ConcatTokens(txt.q, img.q), builder_.ConcatTokens(txt.k, img.k),
                           builder_.ConcatTokens(txt.v, img.v));
    img_ = AddGated(img_, builder_.Linear(builder_.Slice(joint, img_.dims), kWidth), img_mod);
    txt_ = AddGated(txt_, builder_.Linear(builder_.Slice(joint, txt_.dims), kWidth), txt_mod);
    img_ = AddMlp(name + ".img_mlp", img_, img_mod);
    txt_ = AddMlp(name + ".txt_mlp", txt_, txt_mod);
  }

  void AddSingleBlock(const std::string& name, bool first) {
    builder_.BeginLayer(name, TRAINABLE);
    if (first) {
      num_image_tokens_ = img_.dims[0];
      img_ = builder_.ConcatTokens(txt_, img_);
    }
    const Value mod = builder_.Linear(vector_, 3 * kWidth);
    const Value h = builder_.Linear(Modulated(img_, mod), 3 * kWidth + kHidden);
    const Qkv qkv = Normed(builder_.Slice(h, {img_.dims[0], 3 * kWidth}));
    const Value attended = builder_.Attention(qkv.q, qkv.k, qkv.v);
    const Value mlp = builder_.Activation(builder_.Slice(h, {img_.dims[0], kHidden}));
    img_ = AddGated(img_, builder_.Linear(builder_.Concat(attended, mlp), kWidth), mod);
  }

  Value AddFinal() {
    builder_.BeginLayer("final_layer", TRAINABLE);
    const Value x = builder_.Slice(img_, {num_image_tokens_, kWidth});
    const Value mod = builder_.Linear(vector_, 2 * kWidth);
    return builder_.Linear(Modulated(x, mod), kTokenChannels);
  }

 private:
  Value Embed(const Value& x) {
    return builder_.Linear(builder_.Activation(builder_.Linear(x, kWidth)), kWidth);
  }

  Value Modulated(const Value& x, const Value& mod) {
    return builder_.Modulate(builder_.PlainNorm(x), builder_.Slice(mod, {2 * kWidth}),
                             /*shift=*/true);
  }

  Value AddGated(const Value& x, const Value& branch, const Value& mod) {
    return builder_.Add(x,
                        builder_.Modulate(branch, builder_.Slice(mod, {kWidth}), /*shift=*/false));
  }

  Qkv Normed(const Value& qkv) {
    const std::vector<int64_t> dims{qkv.dims[0], kWidth};
    return {builder_.HeadNorm(builder_.Slice(qkv, dims), kHeadSize),
            builder_.HeadNorm(builder_.Slice(qkv, dims), kHeadSize), builder_.Slice(qkv, dims)};
  }
  Qkv Projections(const Value& x) { return Normed(builder_.Linear(x, 3 * kWidth)); }

  Value AddMlp(const std::string& name, const Value& x, const Value& mod) {
    builder_.BeginLayer(name, TRAINABLE);
    const Value h = builder_.Activation(builder_.Linear(Modulated(x, mod), kHidden));
    return AddGated(x, builder_.Linear(h, kWidth), mod);
  }

  ComponentBuilder& builder_;
  Value img_, txt_, vector_;
  int64_t num_image_tokens_ = 0;
};

}  // namespace

ComponentWork Mmdit(const MmditOptions& options) {
  ComponentBuilder builder("mmdit", /*is_backbone=*/true);
  const std::vector<int64_t> image{options.latent_size, options.latent_size, kLatentChannels};
  const Value latents = builder.InputFrom("latents", image, 4, "vae_encoder", "latents");
  const Value noise = builder.Input("noise", image, 4);
  const Value timesteps = builder.Input("timesteps", {}, 4);
  const Value context = builder.InputFrom("context", {options.text_length, kTextWidth}, 2,
                                          "t5_encoder", "last_hidden_state");
  const Value pooled = builder.InputFrom("pooled", {kPooledWidth}, 2, "text_encoder", "pooled");
  builder.BeginLayer("add_noise", FROZEN);
  const int64_t tokens = options.latent_size * options.latent_size / 4;
  const Value noisy = builder.Elementwise({latents, noise, timesteps}, {tokens, kTokenChannels}, 2);
  MmditBuilder mmdit(&builder);
  mmdit.AddEmbedders(noisy, context, pooled, timesteps);
  for (int i = 0; i < options.num_double_blocks; ++i) {
    mmdit.AddDoubleBlock(absl::StrCat("double_blocks.", i));
  }
  for (int i = 0; i < options.num_single_blocks; ++i) {
    mmdit.AddSingleBlock(absl::StrCat("single_blocks.", i), /*first=*/i == 0);
  }
  const Value prediction = mmdit.AddFinal();
  builder.BeginLayer("loss", TRAINABLE);
  builder.MarkOutput(builder.Loss(prediction, {latents, noise, timesteps}), "loss", 4);
  return builder.Build();
}

}  // namespace dpipe::roofline
