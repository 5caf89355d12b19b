// Reads and writes plans, profiles, clusters and traces as text, and fingerprints them.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_PLAN_IO_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_PLAN_IO_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "google/protobuf/message.h"

namespace dpipe {

// Parses the content of a textproto file, which may begin with UTF-8's byte-order mark. `source`
// names the file in messages. InvalidArgument, with source, line, column and field, if the content
// is malformed; that includes unknown fields and values of the wrong type.
absl::Status ParseTextProto(const std::string& content, const std::string& source,
                            google::protobuf::Message* message);

// Read and write textproto files; profiles are written as ProfileText. Errors name the file; for
// malformed content see ParseTextProto.
absl::Status ReadTextProto(const std::string& path, google::protobuf::Message* message);
absl::Status WriteTextProto(const std::string& path, const google::protobuf::Message& message);

absl::StatusOr<Plan> ReadPlan(const std::string& path);
absl::Status WritePlan(const std::string& path, const Plan& plan);

// Returns 16 hexadecimal digits: the 64-bit FNV-1a hash of the message's bytes, the same on every
// machine. ModelProfile.provenance (where and when it was measured) is not hashed.
std::string Fingerprint(const ModelProfile& profile);
std::string Fingerprint(const ClusterSpec& cluster);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_PLAN_IO_H_
