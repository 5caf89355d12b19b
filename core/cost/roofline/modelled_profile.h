// Combines a model's work and a device's roofline into a ModelProfile.
#ifndef DPIPE_CORE_COST_ROOFLINE_MODELLED_PROFILE_H_
#define DPIPE_CORE_COST_ROOFLINE_MODELLED_PROFILE_H_

#include <string>
#include <vector>

#include "core/cost/roofline/device_spec.h"
#include "core/cost/roofline/op_work.h"
#include "core/proto/profile.pb.h"

namespace dpipe::roofline {

// The work of one component of a model. `profile` has everything except times: layers have no
// timings and no optimizer_step_ns.
struct ComponentWork {
  ComponentProfile profile;
  std::vector<std::vector<OpWork>> ops;  // [layer]
};

// A model: its components, frozen ones first.
struct ModelWork {
  std::string name;   // "stable_diffusion_v2_1"
  std::string notes;  // assumptions about the architecture
  double self_conditioning_probability = 0;
  std::vector<ComponentWork> components;
};

// The local batches of checked-in profiles: powers of two up to 64.
const std::vector<int>& ModelledBatches();

// Returns the profile of a model on a device, with timings for these local batches, which increase.
// Times are multiples of 100 ns, the resolution of the
// model. Optimizer steps are AdamW's, limited by memory bandwidth. load_ns_per_sample is the copy
// of the loaded inputs to the device. Image decoding and tokenization run ahead on the host, in
// parallel with the devices, and cost nothing here.
ModelProfile ModelledProfile(const ModelWork& model, const DeviceSpec& device,
                             const std::vector<int>& batches = ModelledBatches());

// Images per second of one device that trains the backbones alone at `local_batch` (one of
// ModelledBatches) with cached inputs: forward, backward and one optimizer step.
double BackboneThroughput(const ModelProfile& profile, int local_batch);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_MODELLED_PROFILE_H_
