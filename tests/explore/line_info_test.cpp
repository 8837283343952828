// Line information in PTX and SASS, as the compilers write it.
#include "tools/explore/line_info.hpp"

#include <doctest/doctest.h>

using namespace stepfuse::explore;

namespace {
using Lines = std::vector<int>;
}

TEST_CASE("PTX: a place holds until the next, and an inlined one names its caller's too") {
  auto code = read_ptx(R"(.version 8.8
	.file	1 "stepfuse.cu"
.visible .entry sf_a(
)
{
	.reg .b32 	%r<3>;
	.loc	1 874 0
	ld.global.f32 	%f1, [%rd1];
	.loc	1 846 3, function_name $L__info_string0, inlined_at 1 877 5
	add.f32 	%f2, %f1, %f1;
	mul.f32 	%f3, %f2, %f1;
	.loc	1 40 7, function_name $L__info_string1, inlined_at 1 846 3
	neg.f32 	%f3, %f3;
$L__BB0_1:
	.loc	1 0 5
	bra 	$L__BB0_1;
}
	.section	.debug_str
)");
  REQUIRE(code.size() == 12);  // without .loc, .file and the text after the code
  CHECK(code[0].text == ".version 8.8");
  CHECK(code[4].text == "\t.reg .b32 \t%r<3>;");
  CHECK(code[4].sources.empty());
  CHECK(code[5].sources == Lines{874});
  CHECK(code[6].sources == Lines{846, 877});
  CHECK(code[7].sources == Lines{846, 877});
  CHECK(code[8].sources == Lines{40, 846, 877});  // includes the caller's caller
  CHECK(code[9].sources.empty());                 // a label
  CHECK(code[10].text == "\tbra \t$L__BB0_1;");
  CHECK(code[10].sources.empty());  // line 0 means "no line"
}

TEST_CASE("SASS: notes in a row are a chain of calls, and a new one replaces them") {
  auto code = read_sass(R"(	.text.sf_a:
	//## File "/tmp/stepfuse.cu", line 846 inlined at "/tmp/stepfuse.cu", line 877
	//## File "/tmp/stepfuse.cu", line 877
        /*0080*/              @!P1 LDG.E   R2, desc[UR10][R34.64] ;
        /*0090*/                   FADD R2, R2, R2 ;
	//## File "/tmp/stepfuse.cu", line 881
        /*00a0*/                   EXIT ;
.L_x_1:
        /*00b0*/                   NOP ;
	.section	.text.sf_b,"ax",@progbits
        /*0000*/                   EXIT ;
)");
  REQUIRE(code.size() == 8);
  CHECK(code[1].text == "/*0080*/ @!P1 LDG.E R2, desc[UR10][R34.64] ;");
  CHECK(code[1].sources == Lines{846, 877, 877});
  CHECK(code[2].sources == Lines{846, 877, 877});
  CHECK(code[3].sources == Lines{881});
  CHECK(code[4].sources.empty());
  CHECK(code[5].sources == Lines{881});  // a label changes nothing
  CHECK(code[7].sources.empty());        // a new function resets it
  CHECK(function_name(code[0].text) == "sf_a");
  CHECK(function_name(code[4].text).empty());
  CHECK(address_of(code[1].text) == 0x80);
  CHECK(address_of(code[3].text) == 0xa0);
  CHECK_FALSE(address_of("/* 0x000fe20000000f00 */").has_value());
  CHECK_FALSE(address_of(code[4].text).has_value());
}
