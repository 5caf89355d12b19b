// Profiles, clusters, plans and traces as files; the name's ending says which form.
//
//   .textproto, .pbtxt   text, as people write it
//   .pb, .binpb          the wire format, several times smaller
//
// Texts are also read from pipes (/dev/stdin, or <(...) of a shell).
//
// Files appear complete or not at all.
#ifndef DPIPE_TOOLS_PROTO_FILE_H_
#define DPIPE_TOOLS_PROTO_FILE_H_

#include <string>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "google/protobuf/message.h"

namespace dpipe::tools {

// InvalidArgument, naming it, for another ending.
absl::Status CheckProtoPath(const std::string& path);

// NotFound; InvalidArgument naming file, line, column and field where a text is malformed, and the
// file where a binary is.
absl::Status ReadProto(const std::string& path, google::protobuf::Message* message);
// Makes the folder if it is missing.
absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message);

// A cluster that ValidateCluster accepts; else its message with the file's name.
absl::StatusOr<ClusterSpec> ReadCluster(const std::string& path);

// A profile on a cluster. What is wrong with their values is said with the file's name.
absl::StatusOr<CostModel> ReadCostModel(const std::string& profile_path,
                                        const std::string& cluster_path);

// A plan that VerifyPlan accepts for this profile and cluster; else its message with the file's
// name. `what_if`: also one that was made for others, if it would be right for these; it then
// carries the fingerprints of these, and no prediction.
absl::StatusOr<Plan> ReadVerifiedPlan(const std::string& path, const CostModel& cost, bool what_if);

absl::StatusOr<Trace> ReadTrace(const std::string& path);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PROTO_FILE_H_
