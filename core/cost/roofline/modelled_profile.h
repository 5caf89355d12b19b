// A model's work and a device's roofline make a ModelProfile.
#ifndef DPIPE_CORE_COST_ROOFLINE_MODELLED_PROFILE_H_
#define DPIPE_CORE_COST_ROOFLINE_MODELLED_PROFILE_H_

#include <string>
#include <vector>

#include "core/cost/roofline/component_builder.h"
#include "core/cost/roofline/device_spec.h"
#include "core/proto/profile.pb.h"

namespace dpipe::roofline {

// A model: its components, frozen ones first.
struct ModelWork {
  std::string name;   // "stable_diffusion_v2_1"
  std::string notes;  // what was assumed of the architecture
  double self_conditioning_probability = 0;
  std::vector<ComponentWork> components;
};

// Local batches with a timing: powers of two to 64.
const std::vector<int>& ModelledBatches();

// Times in multiples of 100 ns: the model is not finer. Optimizer steps are AdamW's, bound by
// memory. load_ns_per_sample is the copy of the loaded inputs to the device; decoding images and
// splitting text into tokens run ahead on the host, beside the devices, and cost nothing here.
ModelProfile ModelledProfile(const ModelWork& model, const DeviceSpec& device);

// Images a second of one device that trains the backbones alone at `local_batch` (one of
// ModelledBatches), its inputs cached: forward, backward and one optimizer step.
double BackboneThroughput(const ModelProfile& profile, int local_batch);

// Textproto with one layer, timing or value a line.
std::string CompactTextProto(const ModelProfile& profile);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_MODELLED_PROFILE_H_
