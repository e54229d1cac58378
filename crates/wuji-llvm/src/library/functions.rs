//! Stubs for the LLVM functions that this crate and inkwell call. If a name is missing here, programs fail to
//! link: add it.

use std::arch::global_asm;
use std::ffi::{CStr, c_void};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!(
    "LLVM can be loaded at run time on x86-64 under Linux only: build with `--no-default-features --features static`"
);

macro_rules! functions {
    ($($name:ident)*) => {
        /// The names of all functions, in the order of their slots.
        pub(super) const NAMES: &[&CStr] = &[$(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
        )*];

        // Hidden, so that these symbols do not clash with another library's copy of LLVM.
        global_asm!(
            ".pushsection .data.wuji_llvm,\"aw\",@progbits",
            ".balign 8",
            ".globl wuji_llvm_slots",
            ".hidden wuji_llvm_slots",
            "wuji_llvm_slots:",
            ".popsection",
            $(
                concat!(".pushsection .data.wuji_llvm,\"aw\",@progbits"),
                concat!(".Lwuji_slot_", stringify!($name), ": .quad {not_found}"),
                ".popsection",
                concat!(".pushsection .text.wuji_llvm,\"ax\",@progbits"),
                concat!(".globl ", stringify!($name)),
                concat!(".hidden ", stringify!($name)),
                concat!(".type ", stringify!($name), ",@function"),
                concat!(stringify!($name), ": jmpq *.Lwuji_slot_", stringify!($name), "(%rip)"),
                ".popsection",
            )*
            not_found = sym not_found,
            options(att_syntax),
        );
    };
}

unsafe extern "C" {
    /// Function addresses, one for each name.
    static mut wuji_llvm_slots: [*mut c_void; NAMES.len()];
}

/// The first slot; there is one for each of [`NAMES`].
pub(super) fn slots() -> *mut *mut c_void {
    (&raw mut wuji_llvm_slots).cast()
}

/// The initial target of all slots, until the library is loaded.
extern "C" fn not_found() -> ! {
    eprintln!("a function of LLVM was called before the library was loaded; this is a bug in Wuji");
    std::process::abort()
}

functions! {
    LLVMABIAlignmentOfType LLVMABISizeOfType LLVMAddAttributeAtIndex LLVMAddCallSiteAttribute LLVMAddCase
    LLVMAddFunction LLVMAddGlobal LLVMAddGlobalMapping LLVMAddIncoming LLVMAddModule LLVMAddModuleFlag
    LLVMAddNamedMetadataOperand LLVMAlignOf LLVMAppendBasicBlockInContext LLVMAppendExistingBasicBlock
    LLVMArrayType LLVMArrayType2 LLVMBFloatTypeInContext LLVMBasicBlockAsValue LLVMBinaryCopyMemoryBuffer
    LLVMBinaryGetType LLVMBlockAddress LLVMBuildAddrSpaceCast LLVMBuildAggregateRet LLVMBuildAlloca
    LLVMAddGlobalInAddressSpace LLVMBuildAtomicCmpXchg LLVMBuildAtomicRMW LLVMBuildBinOp LLVMBuildBr LLVMBuildCall2
    LLVMBuildCallWithOperandBundles LLVMBuildCast LLVMBuildCondBr LLVMBuildExtractElement
    LLVMBuildExtractValue LLVMBuildFCmp LLVMBuildFNeg LLVMBuildFence LLVMBuildFree LLVMBuildFreeze
    LLVMBuildGlobalString LLVMBuildICmp LLVMBuildInBoundsGEP2 LLVMBuildInsertElement LLVMBuildInsertValue
    LLVMBuildInvoke2 LLVMBuildLoad2 LLVMBuildMemCpy LLVMBuildMemMove LLVMBuildMemSet LLVMBuildNSWAdd
    LLVMBuildNUWAdd LLVMBuildPhi LLVMBuildRet LLVMBuildRetVoid LLVMBuildSelect LLVMBuildShuffleVector
    LLVMBuildStore LLVMBuildSwitch LLVMBuildUnreachable LLVMByteOrder LLVMCallFrameAlignmentOfType
    LLVMCanValueUseFastMathFlags LLVMClearInsertionPosition LLVMCloneModule LLVMConstAdd
    LLVMConstAddrSpaceCast LLVMConstAllOnes LLVMConstArray2 LLVMConstBitCast LLVMConstExtractElement
    LLVMConstInt LLVMConstIntGetSExtValue LLVMConstIntGetZExtValue LLVMConstIntOfArbitraryPrecision
    LLVMConstIntOfStringAndSize LLVMConstIntToPtr LLVMConstNSWAdd LLVMConstNSWNeg LLVMConstNSWSub
    LLVMConstNUWAdd LLVMConstNUWSub LLVMConstNamedStruct LLVMConstNeg LLVMConstNot LLVMConstNull
    LLVMConstPointerCast LLVMConstPointerNull LLVMConstPtrToInt LLVMConstReal LLVMConstRealGetDouble
    LLVMConstRealOfStringAndSize LLVMConstShuffleVector LLVMConstStringInContext2 LLVMConstStructInContext
    LLVMConstSub LLVMConstTrunc LLVMConstTruncOrBitCast LLVMConstVector LLVMConstXor LLVMConsumeError
    LLVMContextCreate LLVMContextDispose LLVMContextSetDiagnosticHandler LLVMContextSetDiscardValueNames
    LLVMCopyStringRepOfTargetData LLVMCountBasicBlocks LLVMCountIncoming LLVMCountParamTypes LLVMCountParams
    LLVMCountStructElementTypes LLVMCreateBinary LLVMCreateBuilderInContext LLVMCreateDIBuilder
    LLVMCreateDIBuilderDisallowUnresolved LLVMCreateEnumAttribute LLVMCreateExecutionEngineForModule
    LLVMCreateGenericValueOfFloat LLVMCreateGenericValueOfInt LLVMCreateInterpreterForModule
    LLVMCreateJITCompilerForModule LLVMCreateMemoryBufferWithContentsOfFile
    LLVMCreateMemoryBufferWithMemoryRange LLVMCreateMemoryBufferWithMemoryRangeCopy
    LLVMCreateMemoryBufferWithSTDIN LLVMCreateMessage LLVMCreateOperandBundle LLVMCreatePassBuilderOptions
    LLVMCreateStringAttribute LLVMCreateTargetData LLVMCreateTargetDataLayout LLVMCreateTargetMachine
    LLVMCreateTargetMachineOptions LLVMCreateTargetMachineWithOptions LLVMCreateTypeAttribute
    LLVMDIBuilderCreateArrayType LLVMDIBuilderCreateAutoVariable LLVMDIBuilderCreateBasicType
    LLVMDIBuilderCreateCompileUnit LLVMDIBuilderCreateConstantValueExpression
    LLVMDIBuilderCreateEnumerationType LLVMDIBuilderCreateEnumerator LLVMDIBuilderCreateExpression
    LLVMDIBuilderCreateFile LLVMDIBuilderCreateFunction LLVMDIBuilderCreateGlobalVariableExpression
    LLVMDIBuilderCreateLexicalBlock LLVMDIBuilderCreateMemberType LLVMDIBuilderCreateNameSpace
    LLVMDIBuilderCreateParameterVariable LLVMDIBuilderCreatePointerType LLVMDIBuilderCreateReferenceType
    LLVMDIBuilderCreateStructType LLVMDIBuilderCreateSubroutineType LLVMDIBuilderCreateTypedef
    LLVMDIBuilderCreateUnionType LLVMDIBuilderFinalize LLVMDIBuilderGetOrCreateSubrange
    LLVMDIBuilderInsertDbgValueRecordBefore LLVMDIBuilderInsertDeclareRecordAtEnd
    LLVMDIBuilderInsertDeclareRecordBefore LLVMDILocationGetColumn LLVMDILocationGetLine
    LLVMDILocationGetScope LLVMDITypeGetAlignInBits LLVMDITypeGetOffsetInBits LLVMDITypeGetSizeInBits
    LLVMDebugMetadataVersion LLVMDeleteBasicBlock LLVMDeleteFunction LLVMDeleteGlobal LLVMDisposeBinary
    LLVMDisposeBuilder LLVMDisposeDIBuilder LLVMDisposeErrorMessage LLVMDisposeExecutionEngine
    LLVMDisposeGenericValue LLVMDisposeMemoryBuffer LLVMDisposeMessage LLVMDisposeModule
    LLVMDisposeOperandBundle LLVMDisposePassBuilderOptions LLVMDisposeRelocationIterator
    LLVMDisposeSectionIterator LLVMDisposeSymbolIterator LLVMDisposeTargetData LLVMDisposeTargetMachine
    LLVMDisposeTargetMachineOptions LLVMDoubleTypeInContext LLVMDumpModule LLVMDumpValue LLVMElementAtOffset
    LLVMEnablePrettyStackTrace LLVMFP128TypeInContext LLVMFinalizeFunctionPassManager LLVMFindFunction
    LLVMFloatTypeInContext LLVMFreeMachineCodeForFunction LLVMFunctionType LLVMGenericValueIntWidth
    LLVMGenericValueToFloat LLVMGenericValueToInt LLVMGetAlignment LLVMGetAllocatedType LLVMGetArrayLength
    LLVMGetAsString LLVMGetAtomicRMWBinOp LLVMGetAttributeCountAtIndex LLVMGetAttributesAtIndex
    LLVMGetBasicBlockName LLVMGetBasicBlockParent LLVMGetBasicBlockTerminator LLVMGetBasicBlocks LLVMGetBitcodeModuleInContext2
    LLVMGetBufferSize LLVMGetBufferStart LLVMGetCallSiteAttributeCount LLVMGetCallSiteAttributes
    LLVMGetCallSiteEnumAttribute LLVMGetCallSiteStringAttribute LLVMGetCalledFunctionType LLVMGetCalledValue
    LLVMGetComdat LLVMGetComdatSelectionKind LLVMGetCurrentDebugLocation2 LLVMGetDLLStorageClass
    LLVMGetDataLayoutStr LLVMGetDefaultTargetTriple LLVMGetDiagInfoDescription LLVMGetDiagInfoSeverity
    LLVMGetElementAsConstant LLVMGetElementType LLVMGetEnumAttributeAtIndex LLVMGetEnumAttributeKind
    LLVMGetEnumAttributeKindForName LLVMGetEnumAttributeValue LLVMGetErrorMessage LLVMGetExact
    LLVMGetExecutionEngineTargetData LLVMGetFCmpPredicate LLVMGetFastMathFlags LLVMGetFirstBasicBlock
    LLVMGetFirstFunction LLVMGetFirstGlobal LLVMGetFirstInstruction LLVMGetFirstParam LLVMGetFirstTarget
    LLVMGetFirstUse LLVMGetFunctionAddress LLVMGetFunctionCallConv LLVMGetGC LLVMGetGEPSourceElementType
    LLVMGetHostCPUFeatures LLVMGetHostCPUName LLVMGetICmpPredicate LLVMGetICmpSameSign LLVMGetIncomingBlock
    LLVMGetIncomingValue LLVMGetIndices LLVMGetInitializer LLVMGetInlineAsm LLVMGetInsertBlock
    LLVMGetInstructionCallConv LLVMGetInstructionOpcode LLVMGetInstructionParent LLVMGetIntTypeWidth
    LLVMGetIntrinsicDeclaration LLVMGetIntrinsicID LLVMGetIsDisjoint LLVMGetLastBasicBlock
    LLVMGetLastEnumAttributeKind LLVMGetLastFunction LLVMGetLastGlobal LLVMGetLastInstruction LLVMGetLastParam
    LLVMGetLinkage LLVMGetMDKindIDInContext LLVMGetMDNodeNumOperands LLVMGetMDNodeOperands LLVMGetMDString
    LLVMGetMetadata LLVMGetModuleContext LLVMGetModuleDebugMetadataVersion LLVMGetModuleFlag
    LLVMGetModuleIdentifier LLVMGetNNeg LLVMGetNSW LLVMGetNUW LLVMGetNamedFunction LLVMGetNamedGlobal
    LLVMGetNamedMetadataNumOperands LLVMGetNamedMetadataOperands LLVMGetNextBasicBlock LLVMGetNextFunction
    LLVMGetNextGlobal LLVMGetNextInstruction LLVMGetNextParam LLVMGetNextTarget LLVMGetNextUse
    LLVMGetNumArgOperands LLVMGetNumIndices LLVMGetNumOperandBundleArgs LLVMGetNumOperandBundles
    LLVMGetNumOperands LLVMGetOperand LLVMGetOperandBundleArgAtIndex LLVMGetOperandBundleAtIndex
    LLVMGetOperandBundleTag LLVMGetOperandUse LLVMGetOrInsertComdat LLVMGetOrdering LLVMGetParam
    LLVMGetParamTypes LLVMGetParams LLVMGetPersonalityFn LLVMGetPointerAddressSpace LLVMGetPoison
    LLVMGetPreviousBasicBlock LLVMGetPreviousFunction LLVMGetPreviousGlobal LLVMGetPreviousInstruction
    LLVMGetRelocationOffset LLVMGetRelocationSymbol LLVMGetRelocationType LLVMGetRelocationTypeName
    LLVMGetRelocationValueString LLVMGetRelocations LLVMGetReturnType LLVMGetSection LLVMGetSectionAddress
    LLVMGetSectionContainsSymbol LLVMGetSectionContents LLVMGetSectionName LLVMGetSectionSize
    LLVMGetSourceFileName LLVMGetStringAttributeAtIndex LLVMGetStringAttributeKind LLVMGetStringAttributeValue
    LLVMGetStructElementTypes LLVMGetStructName LLVMGetSubprogram LLVMGetSymbolAddress LLVMGetSymbolName
    LLVMGetSymbolSize LLVMGetTailCallKind LLVMGetTarget LLVMGetTargetDescription LLVMGetTargetFromName
    LLVMGetTargetFromTriple LLVMGetTargetMachineCPU LLVMGetTargetMachineFeatureString
    LLVMGetTargetMachineTarget LLVMGetTargetMachineTriple LLVMGetTargetName LLVMGetThreadLocalMode
    LLVMGetTypeAttributeValue LLVMGetTypeByName2 LLVMGetTypeContext LLVMGetTypeKind LLVMGetUndef
    LLVMGetUnnamedAddress LLVMGetUsedValue LLVMGetUser LLVMGetValueKind LLVMGetValueName2 LLVMGetVectorSize
    LLVMGetVersion LLVMGetVisibility LLVMGetVolatile LLVMGlobalGetValueType LLVMGlobalSetMetadata
    LLVMHalfTypeInContext LLVMHasMetadata LLVMHasPersonalityFn LLVMInitializeFunctionPassManager
    LLVMInitializeNVPTXAsmPrinter LLVMInitializeNVPTXTarget LLVMInitializeNVPTXTargetInfo
    LLVMInitializeNVPTXTargetMC LLVMGetSyncScopeID LLVMSetAtomicSyncScopeID LLVMInitializeX86AsmParser LLVMInitializeX86AsmPrinter LLVMInitializeX86Disassembler
    LLVMInitializeX86Target LLVMInitializeX86TargetInfo LLVMInitializeX86TargetMC
    LLVMInsertBasicBlockInContext LLVMInsertIntoBuilder LLVMInsertIntoBuilderWithName
    LLVMInstallFatalErrorHandler LLVMInstructionClone LLVMInstructionEraseFromParent
    LLVMInstructionGetDebugLoc LLVMInstructionRemoveFromParent LLVMInstructionSetDebugLoc
    LLVMInt16TypeInContext LLVMInt1TypeInContext LLVMInt32TypeInContext LLVMInt64TypeInContext
    LLVMInt8TypeInContext LLVMIntPtrTypeForASInContext LLVMIntPtrTypeInContext LLVMIntTypeInContext
    LLVMIntrinsicIsOverloaded LLVMIsABasicBlock LLVMIsAConstantArray LLVMIsAConstantDataArray
    LLVMIsAConstantDataVector LLVMIsAConstantInt LLVMIsAConstantVector LLVMIsAFunction LLVMIsAGlobalVariable LLVMIsAInstruction
    LLVMIsAMDNode LLVMIsAMDString LLVMIsATerminatorInst LLVMIsConditional LLVMIsConstant LLVMIsConstantString
    LLVMIsDeclaration LLVMIsEnumAttribute LLVMIsExternallyInitialized LLVMIsFunctionVarArg
    LLVMIsGlobalConstant LLVMIsInBounds LLVMIsMultithreaded LLVMIsNull LLVMIsOpaqueStruct LLVMIsPackedStruct
    LLVMIsRelocationIteratorAtEnd LLVMIsStringAttribute LLVMIsTailCall LLVMIsThreadLocal LLVMIsTypeAttribute
    LLVMIsUndef LLVMLinkInInterpreter LLVMLinkInMCJIT LLVMLinkModules2 LLVMLoadLibraryPermanently
    LLVMLookupIntrinsicID LLVMMDNodeInContext2 LLVMMDStringInContext2 LLVMMetadataAsValue
    LLVMMetadataReplaceAllUsesWith LLVMMetadataTypeInContext LLVMModuleCreateWithNameInContext
    LLVMMoveBasicBlockAfter LLVMMoveBasicBlockBefore LLVMMoveToContainingSection LLVMMoveToNextRelocation
    LLVMMoveToNextSection LLVMMoveToNextSymbol LLVMNormalizeTargetTriple LLVMObjectFileCopySectionIterator
    LLVMObjectFileCopySymbolIterator LLVMObjectFileIsSectionIteratorAtEnd LLVMObjectFileIsSymbolIteratorAtEnd
    LLVMOffsetOfElement LLVMOrcAbsoluteSymbols LLVMOrcCreateLLJIT LLVMOrcDisposeLLJIT
    LLVMOrcDisposeMaterializationUnit LLVMOrcExecutionSessionCreateBareJITDylib LLVMOrcExecutionSessionLookup
    LLVMOrcExecutionSessionSetErrorReporter LLVMOrcJITDylibCreateResourceTracker LLVMOrcJITDylibDefine
    LLVMOrcLLJITAddObjectFileWithRT LLVMOrcLLJITEnableDebugSupport LLVMOrcLLJITGetExecutionSession
    LLVMOrcLLJITMangleAndIntern LLVMOrcReleaseResourceTracker LLVMOrcResourceTrackerRemove
    LLVMOrcSymbolStringPoolEntryStr LLVMPPCFP128TypeInContext LLVMParseIRInContext2
    LLVMPassBuilderOptionsSetCallGraphProfile LLVMPassBuilderOptionsSetDebugLogging
    LLVMPassBuilderOptionsSetForgetAllSCEVInLoopUnroll LLVMPassBuilderOptionsSetLicmMssaNoAccForPromotionCap
    LLVMPassBuilderOptionsSetLicmMssaOptCap LLVMPassBuilderOptionsSetLoopInterleaving
    LLVMPassBuilderOptionsSetLoopUnrolling LLVMPassBuilderOptionsSetLoopVectorization
    LLVMPassBuilderOptionsSetMergeFunctions LLVMPassBuilderOptionsSetSLPVectorization
    LLVMPassBuilderOptionsSetVerifyEach LLVMPointerSize LLVMPointerSizeForAS LLVMPointerType
    LLVMPointerTypeInContext LLVMPointerTypeIsOpaque LLVMPositionBuilder LLVMPositionBuilderAtEnd
    LLVMPositionBuilderBefore LLVMPreferredAlignmentOfGlobal LLVMPreferredAlignmentOfType
    LLVMPrintModuleToString LLVMPrintTypeToString LLVMPrintValueToString LLVMRemoveBasicBlockFromParent
    LLVMRemoveCallSiteEnumAttribute LLVMRemoveCallSiteStringAttribute LLVMRemoveEnumAttributeAtIndex
    LLVMRemoveModule LLVMRemoveStringAttributeAtIndex LLVMReplaceAllUsesWith LLVMResetFatalErrorHandler
    LLVMRunFunction LLVMRunFunctionAsMain LLVMRunFunctionPassManager LLVMRunPassManager LLVMRunPasses
    LLVMRunPassesOnFunction LLVMRunStaticConstructors LLVMRunStaticDestructors LLVMScalableVectorType
    LLVMSearchForAddressOfSymbol LLVMSetAlignment LLVMSetComdat LLVMSetComdatSelectionKind
    LLVMSetCurrentDebugLocation2 LLVMSetDLLStorageClass LLVMSetDataLayout LLVMSetExact
    LLVMSetExternallyInitialized LLVMSetFastMathFlags LLVMSetFunctionCallConv LLVMSetGC LLVMSetGlobalConstant
    LLVMSetICmpSameSign LLVMSetInitializer LLVMSetInstrParamAlignment LLVMSetInstructionCallConv
    LLVMSetIsDisjoint LLVMSetIsInBounds LLVMSetLinkage LLVMSetMetadata LLVMSetModuleIdentifier
    LLVMSetModuleInlineAsm2 LLVMSetNNeg LLVMSetNSW LLVMSetNUW LLVMSetOrdering LLVMSetParamAlignment
    LLVMSetPersonalityFn LLVMSetSection LLVMSetSourceFileName LLVMSetSubprogram LLVMSetTailCall
    LLVMSetTailCallKind LLVMSetTarget LLVMSetTargetMachineAsmVerbosity LLVMSetThreadLocal
    LLVMSetThreadLocalMode LLVMSetUnnamedAddress LLVMSetValueName2 LLVMSetVisibility LLVMSetVolatile
    LLVMShutdown LLVMSizeOf LLVMSizeOfTypeInBits LLVMStoreSizeOfType LLVMStripModuleDebugInfo
    LLVMStructCreateNamed LLVMStructGetTypeAtIndex LLVMStructSetBody LLVMStructTypeInContext
    LLVMTargetHasAsmBackend LLVMTargetHasJIT LLVMTargetHasTargetMachine LLVMTargetMachineEmitToFile
    LLVMTargetMachineEmitToMemoryBuffer LLVMTargetMachineOptionsSetABI LLVMTargetMachineOptionsSetCPU
    LLVMTargetMachineOptionsSetCodeGenOptLevel LLVMTargetMachineOptionsSetCodeModel
    LLVMTargetMachineOptionsSetFeatures LLVMTargetMachineOptionsSetRelocMode LLVMTemporaryMDNode
    LLVMTypeIsSized LLVMTypeOf LLVMValueAsBasicBlock LLVMValueAsMetadata LLVMValueIsBasicBlock LLVMVectorType
    LLVMVerifyFunction LLVMVerifyModule LLVMViewFunctionCFG LLVMViewFunctionCFGOnly LLVMVoidTypeInContext
    LLVMWriteBitcodeToFD LLVMWriteBitcodeToMemoryBuffer LLVMX86FP80TypeInContext
}
