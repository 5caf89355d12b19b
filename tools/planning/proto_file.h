// Reads and writes profiles, clusters, plans and traces. The file name's extension selects the
// format:
//
//   .textproto, .pbtxt   text, as people write it
//   .pb, .binpb          the wire format, several times smaller
//
// Text can also be read from pipes (/dev/stdin, or <(...) of a shell). Files are written
// atomically.
#ifndef DPIPE_TOOLS_PLANNING_PROTO_FILE_H_
#define DPIPE_TOOLS_PLANNING_PROTO_FILE_H_

#include <string>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "google/protobuf/message.h"

namespace dpipe::tools {

// Returns InvalidArgument, naming `path`, if it has any other extension.
absl::Status CheckProtoPath(const std::string& path);

// Returns NotFound if there is no such file. Returns InvalidArgument if it is malformed, with file,
// line, column and field for text, and with the file for binary.
absl::Status ReadProto(const std::string& path, google::protobuf::Message* message);
// Creates the folder if it is missing.
absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message);

// Reads a cluster. If ValidateCluster rejects it, returns its error, prefixed with the file's name.
absl::StatusOr<ClusterSpec> ReadCluster(const std::string& path);

// Reads a profile and the cluster that it is used on. Errors in their values name the file.
absl::StatusOr<CostModel> ReadCostModel(const std::string& profile_path,
                                        const std::string& cluster_path);

// Reads a plan. If VerifyPlan rejects it for this profile and cluster, returns its error, prefixed
// with the file's name. With `what_if`, also accepts a plan made for others if it is valid for
// these; the plan then has the fingerprints of these, and no prediction.
absl::StatusOr<Plan> ReadVerifiedPlan(const std::string& path, const CostModel& cost, bool what_if);

absl::StatusOr<Trace> ReadTrace(const std::string& path);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_PROTO_FILE_H_
