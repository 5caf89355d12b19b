#include "core/report/testing/xml_reader.h"

#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

TEST(XmlReaderTest, ReadsElements) {
  const auto elements =
      ReadXml("<!DOCTYPE html>\n<a x=\"1\">t<b y=\"&lt;2\"/>u<style>a > b & c</style></a>\n");
  ASSERT_TRUE(elements.ok()) << elements.status();
  ASSERT_EQ(elements->size(), 3);
  EXPECT_EQ((*elements)[0].text, "tu");
  EXPECT_EQ((*elements)[1].attributes.at("y"), "&lt;2");
  EXPECT_EQ((*elements)[1].parent, 0);
  EXPECT_EQ((*elements)[2].text, "a > b & c");
}

TEST(XmlReaderTest, RefusesMalformedDocuments) {
  for (const char* text :
       {"", "x", "<a>", "<a></b>", "<a/><b/>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>",
        "<a>&nbsp;</a>", "<a x=\"<\"/>", "<a x=\"1/>", "</a>", "<a><b></a></b>"}) {
    EXPECT_FALSE(ReadXml(text).ok()) << text;
  }
}

}  // namespace
}  // namespace dpipe::report
