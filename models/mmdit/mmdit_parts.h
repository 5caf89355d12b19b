// What the multimodal diffusion transformers of Stable Diffusion 3 (Esser et al., arXiv 2403.03206)
// and FLUX.1 have in common: image and text tokens with weights of their own attend to each other,
// and timestep and pooled text scale, shift and gate every residual branch (adaLN-Zero).
#ifndef DPIPE_MODELS_MMDIT_MMDIT_PARTS_H_
#define DPIPE_MODELS_MMDIT_MMDIT_PARTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"
#include "core/ops/embedding/positions.h"

namespace dpipe::models {

// Height and width of a token in latents.
inline constexpr int64_t kMmditPatch = 2;

// Sizes that the configuration does not set.
struct MmditShape {
  int64_t height = 64;  // of the latents; divisible by kMmditPatch
  int64_t width = 64;
  int64_t context_length = 77;  // text tokens

  int64_t token_rows() const { return height / kMmditPatch; }
  int64_t token_columns() const { return width / kMmditPatch; }
};

// Returns InvalidArgument with the sizes if the latents cannot be cut into tokens or there is no
// text. `model` begins the message.
absl::Status CheckMmditShape(const std::string& model, const MmditShape& shape);

// Inputs of a transformer: external ones, or values computed from them.
struct MmditInputs {
  ValueId latents;    // [height, width, channels], fp32 or in the compute dtype
  ValueId timesteps;  // fp32 []: 1000 times the noise level, so in [0, 1000]
  ValueId context;    // [context_length, joint_attention_dim] in the compute dtype
  ValueId pooled;     // [pooled_projection_dim] in the compute dtype
  std::optional<ValueId> guidance = std::nullopt;  // fp32 []: the scale that is distilled
};

struct MmditInputSizes {
  int64_t channels = 0, context_width = 0, pooled_width = 0;
  bool guidance = false;
};

// Adds external inputs "context", "pooled" and, if asked for, "guidance".
void AddMmditConditions(const MmditShape& shape, const MmditInputSizes& sizes,
                        nn::ProgramBuilder* builder, MmditInputs* inputs);
// Adds these and "noisy_latents" and "timesteps". Latents are fp32.
MmditInputs AddMmditInputs(const MmditShape& shape, const MmditInputSizes& sizes,
                           nn::ProgramBuilder* builder);

// The layers that diffusers' training script of FLUX.1 adapts: projections of the attentions and
// feed-forward networks of the double blocks. That of Stable Diffusion 3 adapts the attentions
// alone. Any linear layer can be adapted.
std::vector<std::string> DefaultMmditLoraTargets();

// The name of all linear layers, as in PEFT's target_modules.
inline constexpr char kAllLinear[] = "all-linear";

// Returns the adaptation with its targets as the programs take them: DefaultMmditLoraTargets() if
// it has none, and none, which means all, if it names kAllLinear.
nn::LoraSpec WithMmditLoraTargets(nn::LoraSpec lora);

// Image and text tokens, [T, width] each.
struct MmditTokens {
  ValueId image, text;
};

struct JointBlockSpec {
  // Image tokens also attend to each other alone (Stable Diffusion 3.5 medium).
  bool dual_attention = false;
  // The text tokens are only read and end here, as in the last block of Stable Diffusion 3.
  bool context_pre_only = false;
};

// Adds layers of one kind to a program. Layers and parameters have diffusers' names. Modulations
// start at zero, as in the paper of adaLN-Zero (Peebles and Xie, arXiv 2212.09748). The builder
// must outlive this object.
class MmditParts {
 public:
  struct Options {
    int64_t num_heads = 1, head_size = 64;
    bool qk_norm = false;  // RMS norm of each head's queries and keys
    // Positions by which queries and keys of image tokens are rotated. Its text_tokens is ignored:
    // rotation leaves text tokens as they are.
    std::optional<ops::RotaryParams> rotary = std::nullopt;
    nn::LayerKind kind = nn::LayerKind::kTrainable;  // without adaptation
    // With a rank > 0, only adapters are trained, and all layers are of kind trainable.
    nn::LoraSpec lora = {};

    int64_t width() const { return num_heads * head_size; }
  };

  MmditParts(Options options, nn::ProgramBuilder* builder)
      : options_(std::move(options)), builder_(builder) {}

  // Ends the adaptation for what is added to the builder later.
  ~MmditParts() { builder_->FreezeParameters(false); }
  MmditParts(const MmditParts&) = delete;
  MmditParts& operator=(const MmditParts&) = delete;

  // Begins a layer, and adds a linear layer to it, with an adapter if it is to have one.
  void BeginLayer(const std::string& name);
  ValueId AddLinear(const std::string& name, ValueId x, const nn::LinearSpec& spec);

  // Layer "time_text_embed": sum of the embeddings of timestep, guidance and pooled text ->
  // [width]. Includes the SiLU with which every modulation would begin: computed once, with the
  // same values.
  ValueId AddConditioning(const MmditInputs& inputs);

  // Layer "context_embedder": the text tokens.
  ValueId AddContext(ValueId context);

  // Layers `<name>.attn`, `.attn2` with dual attention, `.ff`, and `.ff_context` unless
  // context_pre_only. In that case the text tokens are returned unchanged.
  MmditTokens AddJointBlock(const std::string& name, const MmditTokens& tokens,
                            ValueId conditioning, const JointBlockSpec& spec);

  // Layer `<name>`: attention and a feed-forward network side by side. `tokens` are text and image
  // together, text first (AddJoinTokens).
  ValueId AddSingleBlock(const std::string& name, ValueId tokens, int64_t text_tokens,
                         ValueId conditioning);

  // "norm_out" and "proj_out", in the caller's layer: image tokens -> [T, out].
  ValueId AddOutput(ValueId image, ValueId conditioning, int64_t out);

 private:
  struct Qkv {
    ValueId q, k, v;
  };
  // Parameter names of projections and of the norms that follow, after the attention's name.
  struct QkvNames {
    std::string q, k, v, norm_q, norm_k;
  };

  // Adds a modulation of `count` vectors of the width.
  ValueId AddModulation(const std::string& name, ValueId conditioning, int count);
  // Returns `count` of its vectors.
  ValueId Vectors(ValueId modulation, int first, int count);
  // Layer norm of x, scaled and shifted by the modulation's vectors `first`, shift, and the next.
  ValueId AddNorm(ValueId x, ValueId modulation, int first);
  // x + gate * branch; the gate is the modulation's vector `index`.
  ValueId AddBranch(ValueId x, ValueId modulation, int index, ValueId branch);
  Qkv AddQkv(const std::string& name, const QkvNames& names, ValueId x);
  // Rotates queries and keys of `text_tokens` text tokens and an image.
  void Rotate(int64_t text_tokens, Qkv* qkv);
  // Two linear layers with a SiLU between them, plus an addend -> [width].
  ValueId AddEmbedder(const std::string& name, ValueId x, std::optional<ValueId> addend);
  // The linear layer `<name>` to the width.
  ValueId Project(const std::string& name, ValueId x);
  // Layer `<name>`: x + gate * feed-forward network, by the modulation's vectors from `first` on.
  ValueId AddFeedForward(const std::string& name, ValueId x, ValueId modulation, int first);

  const Options options_;
  nn::ProgramBuilder* const builder_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_MMDIT_PARTS_H_
