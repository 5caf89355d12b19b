// What a profile says of a component without any clock: layers, values, sizes, who feeds whom.
#ifndef DPIPE_CORE_PROFILE_DESCRIBE_H_
#define DPIPE_CORE_PROFILE_DESCRIBE_H_

#include <string>

#include "core/nn/model.h"
#include "core/proto/profile.pb.h"
#include "core/tensor/dtype.h"

namespace dpipe {

// Layers have no timings and no saved bytes yet. Values that live within one layer are left out.
ComponentProfile DescribeComponent(const nn::Component& component, DType compute_dtype);

// The whole model's, of devices of that name, with the least that launching takes.
ModelProfile DescribeModel(const nn::Model& model, DType compute_dtype, int frozen_quantum,
                           const std::string& device_name);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_DESCRIBE_H_
