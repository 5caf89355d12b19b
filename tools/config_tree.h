// The fields of a config message that hold values, found through its sections.
#ifndef DPIPE_TOOLS_CONFIG_TREE_H_
#define DPIPE_TOOLS_CONFIG_TREE_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "tools/config_field.pb.h"

namespace dpipe::tools {

struct ConfigLeaf {
  std::string path;  // "optimizer.lr"
  FieldInfo info;
  std::vector<const google::protobuf::FieldDescriptor*> sections;  // from the root down
  const google::protobuf::FieldDescriptor* field = nullptr;

  bool is_bool() const {
    return field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL;
  }
  bool is_text() const {
    return field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING;
  }
};

// In the order in which the fields are written down.
std::vector<ConfigLeaf> ConfigLeaves(const google::protobuf::Descriptor& descriptor);

// The message that holds the leaf: of defaults, where `config` has no such section.
const google::protobuf::Message& HolderOf(const ConfigLeaf& leaf,
                                          const google::protobuf::Message& config);
google::protobuf::Message* MutableHolderOf(const ConfigLeaf& leaf,
                                           google::protobuf::Message* config);

// The leaf's value as a flag would give it: its default where it is not set.
std::string ValueText(const ConfigLeaf& leaf, const google::protobuf::Message& config);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_CONFIG_TREE_H_
