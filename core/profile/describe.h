// The parts of a profile that need no measurement: layers, values, sizes, producers and consumers.
#ifndef DPIPE_CORE_PROFILE_DESCRIBE_H_
#define DPIPE_CORE_PROFILE_DESCRIBE_H_

#include <string>

#include "core/nn/model.h"
#include "core/proto/profile.pb.h"
#include "core/tensor/dtype.h"

namespace dpipe {

// Describes a component. Layers have no timings and no saved bytes yet. Values that live within one
// layer are omitted.
ComponentProfile DescribeComponent(const nn::Component& component, DType compute_dtype);

// Describes the whole model on devices of that name. The launch overhead is its minimum, 1 us.
ModelProfile DescribeModel(const nn::Model& model, DType compute_dtype, int frozen_quantum,
                           const std::string& device_name);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_DESCRIBE_H_
