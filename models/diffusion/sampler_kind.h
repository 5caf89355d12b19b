#ifndef DPIPE_MODELS_DIFFUSION_SAMPLER_KIND_H_
#define DPIPE_MODELS_DIFFUSION_SAMPLER_KIND_H_

namespace dpipe::diffusion {

enum class SamplerKind {
  kDdim,
  kDdpm,
  kDpmSolver,
  kEuler,
  kEulerAncestral,
  kLcm,
  kPndm,
  kUniPc,
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLER_KIND_H_
