#include "models/latent/testing/draw_from_noise.h"

#include <map>

#include "core/nn/execution.h"
#include "models/latent/image_sampler.h"
#include "models/vae/vae.h"

namespace dpipe::models {
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
  DPIPE_ASSIGN_OR_RETURN(const auto sampler, ImageSampler::Create(&pipeline, weights, DType::kF32));
  NamedTensors drawn;
  DPIPE_ASSIGN_OR_RETURN(drawn["latents"],
                         sampler->DrawLatents(prompts, options, noise, Device::Cpu()));
  const int side = pipeline.image_size();
  DPIPE_ASSIGN_OR_RETURN(const nn::Program decoder,
                         BuildVaeDecoder(pipeline.parts().vae, side, side));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoder_weights, pipeline.LoadDecoder(decoder));
  nn::ParameterSet parameters(decoder, decoder.all_layers(), Device::Cpu());
  DPIPE_RETURN_IF_ERROR(parameters.Load(decoder_weights));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoded,
                         RunProgram(decoder, parameters, {{"latents", drawn["latents"]}}));
  drawn["pixels"] = decoded.at("pixels");
  return drawn;
}

}  // namespace dpipe::models
