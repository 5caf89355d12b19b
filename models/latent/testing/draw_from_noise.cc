#include "models/latent/testing/draw_from_noise.h"

#include <map>
#include <memory>

#include "core/nn/execution.h"
#include "models/diffusion/sampler.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

absl::StatusOr<std::unique_ptr<nn::ParameterSet>> MakeSet(const nn::Program& program,
                                                          const NamedTensors& weights) {
  auto set = std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
  DPIPE_RETURN_IF_ERROR(set->Load(weights));
  return set;
}

}  // namespace

absl::StatusOr<NamedTensors> RunProgram(const nn::Program& program,
                                        const nn::ParameterSet& parameters,
                                        const NamedTensors& inputs) {
  nn::ValueMap values;
  for (const auto& [name, tensor] : inputs) values[program.InputNamed(name)] = tensor;
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, program.all_layers(), parameters, {DType::kF32},
                                    &values, /*state=*/nullptr));
  NamedTensors outputs;
  for (ValueId id : program.outputs()) outputs[program.value(id).name] = values[id];
  return outputs;
}

absl::StatusOr<NamedTensors> EmbedTexts(const LatentPipeline& pipeline,
                                        const std::vector<std::string>& texts) {
  const std::vector<TextEncoder>& encoders = pipeline.parts().text_encoders;
  std::map<std::string, std::vector<Tensor>> rows;
  for (size_t i = 0; i < encoders.size(); ++i) {
    const int component = kFirstTextEncoder + static_cast<int>(i);
    DPIPE_RETURN_IF_ERROR(pipeline.LoadFrozen(component));
    for (const std::string& text : texts) {
      const std::vector<int32_t> ids = encoders[i].tokenizer->Encode(text);
      const Tensor tokens =
          Tensor::FromHost<int32_t>(Device::Cpu(), {1, static_cast<int64_t>(ids.size())}, ids);
      DPIPE_ASSIGN_OR_RETURN(
          const NamedTensors outputs,
          RunProgram(pipeline.model().component(component).program,
                     *pipeline.frozen_parameters()[component], {{"ids", tokens}}));
      for (const auto& [input, source] : pipeline.denoiser().embeddings()) {
        if (source.component == encoders[i].name) rows[input].push_back(outputs.at(source.output));
      }
    }
  }
  NamedTensors embeddings;
  for (const auto& [input, tensors] : rows) embeddings[input] = ConcatBatch(tensors);
  return embeddings;
}

absl::StatusOr<NamedTensors> DrawFromNoise(const LatentPipeline& pipeline,
                                           const NamedTensors& weights,
                                           const std::vector<std::string>& prompts,
                                           const DrawOptions& options, const Tensor& noise) {
  const Denoiser& denoiser = pipeline.denoiser();
  const int side = pipeline.image_size();
  DPIPE_ASSIGN_OR_RETURN(const nn::Program network,
                         denoiser.BuildForDrawing(pipeline.latent_size()));
  DPIPE_ASSIGN_OR_RETURN(const auto network_set, MakeSet(network, weights));
  const float guidance = denoiser.embeds_guidance() ? 1.0f : options.guidance;
  const bool guided = diffusion::IsGuided(guidance);
  // The unconditional half comes first, as WithGuidance requires.
  std::vector<std::string> texts(guided ? prompts.size() : 0);
  texts.insert(texts.end(), prompts.begin(), prompts.end());
  DPIPE_ASSIGN_OR_RETURN(NamedTensors inputs, EmbedTexts(pipeline, texts));
  const DrawnPictures pictures = {
      static_cast<int>(prompts.size()), {side, side}, &options, nullptr};
  for (const auto& condition : denoiser.conditions()) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor rows, condition->ForDrawing(pictures, Device::Cpu()));
    inputs[condition->name()] = guided ? ConcatBatch({rows, rows}) : rows;
  }
  const auto predict = [&](const Tensor& x, const Tensor& timesteps) -> absl::StatusOr<Tensor> {
    inputs["noisy_latents"] = x;
    inputs["timesteps"] = timesteps;
    DPIPE_ASSIGN_OR_RETURN(const NamedTensors outputs, RunProgram(network, *network_set, inputs));
    return outputs.at("prediction");
  };
  NamedTensors drawn;
  DPIPE_ASSIGN_OR_RETURN(drawn["latents"],
                         pipeline.objective().Draw(options, /*first_sample=*/0, noise,
                                                   diffusion::WithGuidance(predict, guidance),
                                                   /*on_step=*/[] {}));
  DPIPE_ASSIGN_OR_RETURN(const nn::Program decoder,
                         BuildVaeDecoder(pipeline.parts().vae, side, side));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoder_weights, pipeline.LoadDecoder(decoder));
  DPIPE_ASSIGN_OR_RETURN(const auto decoder_set, MakeSet(decoder, decoder_weights));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoded,
                         RunProgram(decoder, *decoder_set, {{"latents", drawn["latents"]}}));
  drawn["pixels"] = decoded.at("pixels");
  return drawn;
}

}  // namespace dpipe::models
