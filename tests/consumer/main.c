// A C program of somebody else's that uses stepfuse.
#include <stdio.h>

#include <stepfuse/stepfuse.h>

int main(void) {
  stepfuse_program* program;
  if (stepfuse_recipe("adamw", NULL, 0, &program) != STEPFUSE_OK) return 1;
  printf("stepfuse %s: %s\n", stepfuse_version(), stepfuse_program_name(program));
  stepfuse_program_destroy(program);
  return 0;
}
