// A config message as command line flags: every field by its path, described by the message itself.
//
// A message like TrainConfig (proto2, with a FieldInfo on every field that holds a value) is all
// that it takes: --optimizer.lr=1e-4 sets the field lr of the field optimizer, --lr=1e-4 does where
// the field's alias says so. Lists are given whole, their items separated by "," (numbers) or "|"
// (strings). A bool alone is true, and false behind "no": --flip, --noflip.
//
// Errors are InvalidArgument: one sentence that names the flag or field, the value, and what is
// allowed.
#ifndef DPIPE_TOOLS_CONFIG_FLAGS_H_
#define DPIPE_TOOLS_CONFIG_FLAGS_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "google/protobuf/message.h"

namespace dpipe::tools {

// Merges a file's content, which may begin with UTF-8's byte-order mark, into `config`; `path` is
// for messages, which name the line too.
absl::Status MergeConfigText(const std::string& content, const std::string& path,
                             google::protobuf::Message* config);

// A flag of a command line, as "name" and "value"; has_value is false for "--flip".
struct ConfigFlag {
  std::string name;
  std::string value;
  bool has_value = false;
};

// "--a=1 -b=2 --c" -> flags. A flag of a field that is not a bool takes the next argument as its
// value where it has none of its own.
absl::StatusOr<std::vector<ConfigFlag>> SplitFlags(const std::vector<std::string>& arguments,
                                                   const google::protobuf::Message& config);

// Sets the field that the flag names, if its FieldInfo allows the value.
absl::Status ApplyConfigFlag(const ConfigFlag& flag, google::protobuf::Message* config);

// That every field's value is one that its FieldInfo allows.
absl::Status CheckConfig(const google::protobuf::Message& config);

// A line or more for each field: flags, defaults, what they mean; a blank line between sections.
std::string ConfigHelp(const google::protobuf::Message& config);

// All of it as text, the defaults too: what a run was made with, whatever defaults become later.
std::string WholeConfigText(const google::protobuf::Message& config);

// "optimizer.lr=0.0001" for every field that has another value than its default, in order.
std::vector<std::string> ConfigDifferences(const google::protobuf::Message& config);

// Every field's value by its path.
std::map<std::string, std::string> ConfigValues(const google::protobuf::Message& config);

// The paths of the fields that hold a value, in order.
std::vector<std::string> ConfigPaths(const google::protobuf::Message& config);

// Those of them that hold any text: paths, names, prompts.
std::vector<std::string> ConfigTextFields(const google::protobuf::Message& config);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_CONFIG_FLAGS_H_
