// Plans, profiles, clusters and traces as files a person can read, and what identifies them.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_PLAN_IO_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_PLAN_IO_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "google/protobuf/message.h"

namespace dpipe {

// From the content of a file, which may begin with UTF-8's byte-order mark; `source` names it in
// messages. InvalidArgument with source, line, column and field if it is malformed: unknown fields
// and values of another type, too.
absl::Status ParseTextProto(const std::string& content, const std::string& source,
                            google::protobuf::Message* message);

// Textproto. Errors name the file, and of a malformed one what ParseTextProto says.
absl::Status ReadTextProto(const std::string& path, google::protobuf::Message* message);
absl::Status WriteTextProto(const std::string& path, const google::protobuf::Message& message);

absl::StatusOr<Plan> ReadPlan(const std::string& path);
absl::Status WritePlan(const std::string& path, const Plan& plan);

// 16 hexadecimal digits of a 64-bit FNV-1a hash over the message's bytes; the same on every
// machine. Where and when it was measured (ModelProfile.provenance) does not count.
std::string Fingerprint(const ModelProfile& profile);
std::string Fingerprint(const ClusterSpec& cluster);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_PLAN_IO_H_
