// What a profile says of a component without any clock: layers, values, sizes, who feeds whom.
#ifndef DPIPE_CORE_PROFILE_DESCRIBE_H_
#define DPIPE_CORE_PROFILE_DESCRIBE_H_

#include "core/nn/model.h"
#include "core/proto/profile.pb.h"
#include "core/tensor/dtype.h"

namespace dpipe {

// Layers have no timings and no saved bytes yet. Values that live within one layer are left out.
ComponentProfile DescribeComponent(const nn::Component& component, DType compute_dtype);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_DESCRIBE_H_
