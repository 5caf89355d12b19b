// The text of profiles in files: a textproto with two lines per layer and one per value.
#ifndef DPIPE_CORE_PROTO_PROFILE_TEXT_H_
#define DPIPE_CORE_PROTO_PROFILE_TEXT_H_

#include <string>

#include "core/proto/profile.pb.h"

namespace dpipe {

// Returns a textproto that parses to an equal message.
std::string ProfileText(const ModelProfile& profile);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROTO_PROFILE_TEXT_H_
